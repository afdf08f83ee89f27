// SPDX-License-Identifier: Apache-2.0
// Machine code as text, by NVIDIA's nvdisasm where it is found.
#pragma once

#include <string>

namespace flashinfer::cli {

/// Throws kUnsupported when there is no nvdisasm.
std::string Disassemble(const std::string& cubin);

}  // namespace flashinfer::cli
