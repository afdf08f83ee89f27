// SPDX-License-Identifier: Apache-2.0
// Comparing a tensor with the oracle's values, in words.
#pragma once

#include <string>
#include <vector>

#include "support/host_tensor.h"
#include "support/tolerance.h"

namespace flashinfer::test {

/// Empty when every element is near the expected value (row-major order) and nothing was written in
/// between; else the first elements that are off.
std::string Mismatch(const HostTensor& actual, const std::vector<double>& expected,
                     Tolerance tolerance);

}  // namespace flashinfer::test
