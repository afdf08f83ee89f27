// SPDX-License-Identifier: Apache-2.0
// ldmatrix (SM75) and stmatrix (SM90): a warp moves 8 x 8 matrices of 16-bit elements between
// shared memory and fragments of mma.
//
// Lane l gives the address of row l % 8 of matrix l / 8, 16 bytes, aligned to 16; lanes beyond the
// matrices are ignored. Register i of a lane holds elements 2 (l % 4) and 2 (l % 4) + 1 of row l /
// 4 of matrix i; transposed, of column l / 4.
#pragma once

#include "kernels/portable.h"
#include "kernels/ptx/address.cuh"

namespace flashinfer::kernels::ptx {

enum class Transposed : bool { kNo, kYes };

/// `at` is a shared_address(): one address and constant offsets from it take fewer registers than
/// pointers.
template <int kCount, Transposed kTransposed = Transposed::kNo>
__device__ __forceinline__ void ldmatrix(uint32_t (&r)[kCount], uint32_t at) {
  static_assert(kCount == 1 || kCount == 2 || kCount == 4, "1, 2 or 4 matrices");
  if constexpr (kCount == 1 && kTransposed == Transposed::kNo) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(r[0])
                 : "r"(at)
                 : "memory");
  } else if constexpr (kCount == 1) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(r[0])
                 : "r"(at)
                 : "memory");
  } else if constexpr (kCount == 2 && kTransposed == Transposed::kNo) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(at)
                 : "memory");
  } else if constexpr (kCount == 2) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(at)
                 : "memory");
  } else if constexpr (kTransposed == Transposed::kNo) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
  }
}

template <int kCount, Transposed kTransposed = Transposed::kNo>
__device__ __forceinline__ void ldmatrix(uint32_t (&r)[kCount], const void* row) {
  ldmatrix<kCount, kTransposed>(r, shared_address(row));
}

template <int kCount, Transposed kTransposed = Transposed::kNo>
__device__ __forceinline__ void stmatrix(void* row, const uint32_t (&r)[kCount]) {
  static_assert(kCount == 1 || kCount == 2 || kCount == 4, "1, 2 or 4 matrices");
  const uint32_t at = shared_address(row);
  if constexpr (kCount == 1 && kTransposed == Transposed::kNo) {
    asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(at), "r"(r[0])
                 : "memory");
  } else if constexpr (kCount == 1) {
    asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(at), "r"(r[0])
                 : "memory");
  } else if constexpr (kCount == 2 && kTransposed == Transposed::kNo) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(at), "r"(r[0]),
                 "r"(r[1])
                 : "memory");
  } else if constexpr (kCount == 2) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(at),
                 "r"(r[0]), "r"(r[1])
                 : "memory");
  } else if constexpr (kTransposed == Transposed::kNo) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
  } else {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
  }
}

}  // namespace flashinfer::kernels::ptx
