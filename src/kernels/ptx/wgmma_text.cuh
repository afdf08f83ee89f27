// SPDX-License-Identifier: Apache-2.0
// The parts of a wgmma instruction's text that types and layouts decide.
#pragma once

#include "flashinfer/dtype.h"
#include "kernels/portable.h"

namespace flashinfer::kernels::ptx {

/// Which dimension of an operand in shared memory lies contiguous: k, or rows of A and columns of
/// B.
enum class Major : uint8_t { kK, kMn };

template <DType kDType>
struct WgmmaKind;
template <>
struct WgmmaKind<DType::kBF16> {
  static constexpr bool kIs16Bit = true;
  static constexpr char kText[] = "k16.f32.bf16.bf16";
};
template <>
struct WgmmaKind<DType::kF16> {
  static constexpr bool kIs16Bit = true;
  static constexpr char kText[] = "k16.f32.f16.f16";
};
template <>
struct WgmmaKind<DType::kE4M3> {
  static constexpr bool kIs16Bit = false;
  static constexpr char kText[] = "k32.f32.e4m3.e4m3";
};
template <>
struct WgmmaKind<DType::kE5M2> {
  static constexpr bool kIs16Bit = false;
  static constexpr char kText[] = "k32.f32.e5m2.e5m2";
};

/// Signs of A and B, and whether they are transposed.
template <bool kIs16Bit, Major kMajorA, Major kMajorB>
struct WgmmaTail {
  static constexpr char kText[] = {
      '1', ',', '1', ',', kMajorA == Major::kMn ? '1' : '0', ',', kMajorB == Major::kMn ? '1' : '0',
      '\0'};
};
template <Major kMajorA, Major kMajorB>
struct WgmmaTail<false, kMajorA, kMajorB> {
  static_assert(kMajorA == Major::kK && kMajorB == Major::kK, "8-bit operands are k-major");
  static constexpr char kText[] = "1,1";
};

template <bool kIs16Bit, Major kMajorB>
struct WgmmaRegisterTail {
  static constexpr char kText[] = {'1', ',', '1', ',', kMajorB == Major::kMn ? '1' : '0', '\0'};
};
template <Major kMajorB>
struct WgmmaRegisterTail<false, kMajorB> {
  static_assert(kMajorB == Major::kK, "8-bit operands are k-major");
  static constexpr char kText[] = "1,1";
};

constexpr bool IsWgmmaWidth(int n) {
  return n == 8 || n == 16 || n == 32 || n == 64 || n == 96 || n == 128 || n == 176 || n == 192 ||
         n == 256;
}

}  // namespace flashinfer::kernels::ptx
