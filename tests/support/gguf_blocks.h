// SPDX-License-Identifier: Apache-2.0
// Plain encoders and exact decoders of GGUF's block formats: what tests compare with.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "flashinfer/gemm.h"

namespace flashinfer::test {

/// Every format, for loops over all of them.
inline constexpr WeightFormat kWeightFormats[] = {
    WeightFormat::kF32,  WeightFormat::kF16,  WeightFormat::kBF16, WeightFormat::kQ4_0,
    WeightFormat::kQ4_1, WeightFormat::kQ8_0, WeightFormat::kQ4_K, WeightFormat::kQ6_K,
    WeightFormat::kQ5_0, WeightFormat::kQ5_1, WeightFormat::kQ5_K, WeightFormat::kMXFP4};

/// Values and bytes per block, from the format's definition.
struct BlockShape {
  int64_t num_values;
  int64_t num_bytes;
};
BlockShape ShapeOf(WeightFormat format);

/// Bytes of `num_values` values, which must be whole blocks.
int64_t EncodedBytes(WeightFormat format, int64_t num_values);

/// All values of a matrix, row-major, without rounding.
std::vector<double> Dequantize(const WeightView& weight);

/// Rounds `values`, whole blocks of them, to the format: to nearest on a plain min-max grid.
std::vector<uint8_t> Quantize(WeightFormat format, std::span<const float> values);

/// A matrix of random bits with small finite scales: every code, also those that no encoder
/// writes. Values are of order 1.
std::vector<uint8_t> RandomWeight(WeightFormat format, int64_t rows, int64_t cols,
                                  std::mt19937_64& rng);

}  // namespace flashinfer::test
