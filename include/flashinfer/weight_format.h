// SPDX-License-Identifier: Apache-2.0
// Formats of weight matrices. Includes nothing: device code uses it too.
#pragma once

namespace flashinfer {

/// How a weight matrix's rows are stored: plain elements, or the quantised blocks of the GGUF
/// format (32 values a block; 256 for the K types).
enum class WeightFormat : unsigned char {
  kF32,
  kF16,
  kBF16,
  kQ4_0,
  kQ4_1,
  kQ8_0,
  kQ4_K,
  kQ6_K,
  kQ5_0,
  kQ5_1,
  kQ5_K,
  kMXFP4,  ///< e2m1 values with one power of two for 32
};
inline constexpr int kNumWeightFormats = 12;

}  // namespace flashinfer
