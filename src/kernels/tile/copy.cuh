// SPDX-License-Identifier: Apache-2.0
// Tiles of rows from global to swizzled shared memory by all threads of a block.
#pragma once

#include "kernels/ptx/cp_async.cuh"
#include "kernels/tile/swizzle.h"

namespace flashinfer::kernels::tile {

/// Starts the copy of kRows rows of kRowBytes, a multiple of the swizzle's span, which come to lie
/// as kRowBytes / kSpan panels of kRows lines each. Rows from num_rows on become zeros, and are not
/// read. `row_address(row)` gives a row's begin, aligned to 16 bytes; `shared` is aligned to 8
/// spans.
template <int kThreads, int kRows, int kRowBytes, int kSpan, class RowAddress>
__device__ __forceinline__ void CopyRows(char* shared, int num_rows, RowAddress&& row_address) {
  static_assert(kRowBytes % kSpan == 0, "rows are whole panels");
  constexpr int kPieces = kRowBytes / 16;
  constexpr Swizzle<kSpan> kSwizzle;
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kPieces; i += kThreads) {
    const int row = i / kPieces;
    const int byte = i % kPieces * 16;
    char* to = shared + byte / kSpan * (kRows * kSpan) +
               kSwizzle(static_cast<uint32_t>(row), static_cast<uint32_t>(byte % kSpan));
    const bool is_there = row < num_rows;
    const char* from = row_address(is_there ? row : 0);
    ptx::cp_async_zfill(to, from + byte, is_there);
  }
}

}  // namespace flashinfer::kernels::tile
