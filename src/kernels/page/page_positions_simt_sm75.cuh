// SPDX-License-Identifier: Apache-2.0
// Requests and positions of a batch's tokens, and lengths of its requests. A token looks for its
// request by bisection, as indptr is in the cache after the first few.
#pragma once

#include "kernels/page/page_positions_spec.h"
#include "kernels/ptx/griddepcontrol.cuh"

namespace flashinfer::kernels::page_positions_simt {

/// The request that row `token` belongs to: the last that begins at or before it. There is one.
__device__ __forceinline__ int RequestOf(const PagePositionsParams& p, int64_t token) {
  int low = 0;
  int high = p.num_requests;
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    if (p.indptr[middle] <= token) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

__device__ __forceinline__ void WriteToken(const PagePositionsParams& p, int64_t token) {
  int request = -1;
  int position = -1;
  if (p.num_requests > 0 && token < p.indptr[p.num_requests]) {
    request = RequestOf(p, token);
    position = p.lens[request] - p.indptr[request + 1] + static_cast<int>(token);
  }
  p.out[token] = request;
  p.positions[token] = position;
}

__device__ __forceinline__ void WriteLength(const PagePositionsParams& p, int64_t request) {
  const int num_pages = p.indptr[request + 1] - p.indptr[request];
  p.out[request] = num_pages == 0 ? 0 : (num_pages - 1) * p.page_size + p.lens[request];
}

template <PagePositionsSpec kSpec>
__device__ __forceinline__ void Run(const PagePositionsParams& p) {
  static_assert(kSpec.of == kPagePositionsTokens || kSpec.of == kPagePositionsLengths,
                "of must be 0 or 1");
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  const int64_t i = int64_t{blockIdx.x} * NumThreads(kSpec) + threadIdx.x;
  if (i >= p.num_out) return;
  if constexpr (kSpec.of == kPagePositionsTokens) {
    WriteToken(p, i);
  } else {
    WriteLength(p, i);
  }
}

}  // namespace flashinfer::kernels::page_positions_simt
