// SPDX-License-Identifier: Apache-2.0
// mma.sync: each lane computes its four elements of D from the fragments of the lanes that hold its
// rows of A and columns of B.
#pragma once

#include "flashinfer/dtype.h"
#include "kernels/portable.h"
#include "kernels/ptx/cvt.cuh"

namespace flashinfer::kernels::ptx {

/// Fragments of A and B that a lane holds.
template <int kA, int kB>
struct MmaOperands {
  uint32_t a[kA];
  uint32_t b[kB];
};

/// Element i of a register.
template <DType kDType>
struct MmaElement {
  static constexpr int kCount = kDType == DType::kF16 || kDType == DType::kBF16 ? 2 : 4;
  using Value = float;
  static float At(uint32_t word, int i) {
    if constexpr (kDType == DType::kF16) return HalfValue(word >> (16 * i) & 0xffff);
    if constexpr (kDType == DType::kBF16) return __uint_as_float(word >> (16 * i) << 16);
    if constexpr (kDType == DType::kE4M3) return E4m3Value(word >> (8 * i) & 0xff);
    if constexpr (kDType == DType::kE5M2) return E5m2Value(word >> (8 * i) & 0xff);
  }
};
template <>
struct MmaElement<DType::kI8> {
  static constexpr int kCount = 4;
  using Value = int32_t;
  static int32_t At(uint32_t word, int i) { return static_cast<int8_t>(word >> (8 * i)); }
};

/// d = A B + c. Registers of A alternate between rows `group` and `group + 8`; kRows8: A has the
/// first eight rows alone.
template <DType kDTypeA, DType kDTypeB, bool kRows8 = false, class Value, int kD, int kA, int kB>
inline void MultiplyFragments(Value (&d)[kD], const uint32_t (&a)[kA], const uint32_t (&b)[kB],
                              const Value (&c)[kD]) {
  using A = MmaElement<kDTypeA>;
  using B = MmaElement<kDTypeB>;
  MmaOperands<kA, kB> mine;
  std::memcpy(mine.a, a, sizeof(a));
  std::memcpy(mine.b, b, sizeof(b));
  const uint32_t lane = software_device::Lane();
  Value sums[kD];
  software_device::Together(~0u, software_device::Operation::kMma, mine, [&](auto part) {
    constexpr int kRowRegisters = kRows8 ? 1 : 2;
    for (int e = 0; e < kD; ++e) sums[e] = c[e];
    for (uint32_t pair = 0; pair < 4; ++pair) {
      const auto of_row = part(lane / 4 * 4 + pair);
      for (uint32_t column = 0; column < 2; ++column) {
        const auto of_column = part((2 * (lane % 4) + column) * 4 + pair);
        for (int row = 0; row < kRowRegisters; ++row) {
          Value& sum = sums[2 * row + static_cast<int>(column)];
          for (int k = 0; k < kB; ++k) {
            for (int i = 0; i < A::kCount; ++i) {
              sum += A::At(of_row.a[kRowRegisters * k + row], i) * B::At(of_column.b[k], i);
            }
          }
        }
      }
    }
    return 0;
  });
  for (int e = 0; e < kD; ++e) d[e] = sums[e];
}

inline void mma_m16n8k8_f16(float (&d)[4], const uint32_t (&a)[2], uint32_t b) {
  MultiplyFragments<DType::kF16, DType::kF16>(d, a, {b}, d);
}

template <DType kDType>
inline void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  static_assert(kDType == DType::kF16 || kDType == DType::kBF16, "k16 multiplies f16 or bf16");
  static_assert(kDType == DType::kF16 || FLASHINFER_ARCH >= 800, "bf16 on tensor cores needs SM80");
  MultiplyFragments<kDType, kDType>(d, a, b, d);
}

template <DType kDTypeA, DType kDTypeB>
inline void mma_m16n8k32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  MultiplyFragments<kDTypeA, kDTypeB>(d, a, b, d);
}

inline void mma_m16n8k32_s8(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  MultiplyFragments<DType::kI8, DType::kI8>(d, a, b, d);
}

}  // namespace flashinfer::kernels::ptx
