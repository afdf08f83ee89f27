// SPDX-License-Identifier: Apache-2.0
// mma.sync: a warp multiplies a 16-row tile of A with an 8-column tile of B.
//
// Fragments, with group = lane / 4 and pair = lane % 4. 16-bit A of k16 (k8: a[0] and a[1]):
//   a[0] row group      columns 2 pair, 2 pair + 1      a[2] the same, columns + 8
//   a[1] row group + 8  columns 2 pair, 2 pair + 1      a[3] the same, columns + 8
// 16-bit B: b[0] column group, rows 2 pair and 2 pair + 1; b[1] the same, rows + 8. 8-bit operands
// are laid out alike with four neighbours instead of two. D: d[0], d[1] row group, columns 2 pair
// and 2 pair + 1; d[2], d[3] row group + 8.
#pragma once

#include "flashinfer/dtype.h"
#include "kernels/portable.h"

namespace flashinfer::kernels::ptx {

/// As the instruction spells the types of A and B.
template <DType kDType>
struct MmaType;
template <>
struct MmaType<DType::kF16> {
  static constexpr char kText[] = "f16";
};
template <>
struct MmaType<DType::kBF16> {
  static constexpr char kText[] = "bf16";
};
template <>
struct MmaType<DType::kE4M3> {
  static constexpr char kText[] = "e4m3";
};
template <>
struct MmaType<DType::kE5M2> {
  static constexpr char kText[] = "e5m2";
};

/// d += A B, f16, SM75.
__device__ __forceinline__ void mma_m16n8k8_f16(float (&d)[4], const uint32_t (&a)[2], uint32_t b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(b));
}

/// d += A B, f16 or bf16, SM80; f16 in two steps before.
template <DType kDType>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4],
                                             const uint32_t (&b)[2]) {
  static_assert(kDType == DType::kF16 || kDType == DType::kBF16, "k16 multiplies f16 or bf16");
#if FLASHINFER_ARCH >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.%10.%10.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]),
        "C"(MmaType<kDType>::kText));
#else
  static_assert(kDType == DType::kF16, "bf16 on tensor cores needs SM80");
  mma_m16n8k8_f16(d, {a[0], a[1]}, b[0]);
  mma_m16n8k8_f16(d, {a[2], a[3]}, b[1]);
#endif
}

/// d += A B of e4m3 or e5m2, SM89.
template <DType kDTypeA, DType kDTypeB>
__device__ __forceinline__ void mma_m16n8k32(float (&d)[4], const uint32_t (&a)[4],
                                             const uint32_t (&b)[2]) {
  static_assert((kDTypeA == DType::kE4M3 || kDTypeA == DType::kE5M2) &&
                    (kDTypeB == DType::kE4M3 || kDTypeB == DType::kE5M2),
                "k32 multiplies e4m3 or e5m2");
  asm("mma.sync.aligned.m16n8k32.row.col.f32.%10.%11.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]),
        "C"(MmaType<kDTypeA>::kText), "C"(MmaType<kDTypeB>::kText));
}

/// d += A B of signed bytes, exact, SM80.
__device__ __forceinline__ void mma_m16n8k32_s8(int32_t (&d)[4], const uint32_t (&a)[4],
                                                const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace flashinfer::kernels::ptx
