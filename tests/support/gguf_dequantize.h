// SPDX-License-Identifier: Apache-2.0
// What GGUF blocks mean, as plain as can be: the oracle of packed weights.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "flashinfer/gemm.h"

namespace flashinfer::test {

/// Random bytes of a weight matrix whose scales are finite and small.
std::vector<uint8_t> RandomWeight(WeightFormat format, int64_t rows, int64_t cols,
                                  std::mt19937_64& rng);

/// All values, row-major.
std::vector<double> Dequantize(const WeightView& weight);

}  // namespace flashinfer::test
