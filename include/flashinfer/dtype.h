// SPDX-License-Identifier: Apache-2.0
// Element types. Includes nothing: device code uses it too.
#pragma once

namespace flashinfer {

/// Element type. Sub-byte types are named by what one byte holds: `kE2M1x2` is two FP4 values,
/// `kI4x2` two signed 4-bit integers; element 0 is in the low nibble and shapes count bytes.
enum class DType : unsigned char {
  kF32,
  kF16,
  kBF16,
  kE4M3,    ///< fp8, OCP E4M3FN: no infinity, largest finite 448
  kE5M2,    ///< fp8, OCP E5M2: largest finite 57344
  kE2M1x2,  ///< fp4, OCP E2M1: largest finite 6
  kE8M0,    ///< OCP MX scale, a power of two
  kI8,
  kI4x2,
  kU8,
  kI32,
  kI64,
  kBool,
};
inline constexpr int kNumDTypes = 13;

}  // namespace flashinfer
