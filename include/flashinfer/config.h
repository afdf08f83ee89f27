// SPDX-License-Identifier: Apache-2.0
// What the library found out about its surroundings.
#pragma once

#include <string>

#include "flashinfer/export.h"

namespace flashinfer {

/// Version, threads, instruction set and every environment switch with its value and meaning, as
/// lines ready to print.
FLASHINFER_API std::string ConfigText();

}  // namespace flashinfer
