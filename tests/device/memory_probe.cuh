// SPDX-License-Identifier: Apache-2.0
// Probes of accesses of every width, of counters between blocks, and of dependent launches.
#pragma once

#include "device/probe_params.h"
#include "kernels/ptx/atom.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/tile/words.cuh"

namespace flashinfer::probe {

using namespace kernels;

/// Copies 32 values of kBytes, and once more from L2 alone.
template <int kBytes>
__device__ void Move(const ProbeParams& p) {
  const auto* a = static_cast<const char*>(p.a) + threadIdx.x * kBytes;
  auto* out = static_cast<char*>(p.out) + threadIdx.x * kBytes;
  ptx::st<kBytes>(out, ptx::ld<kBytes>(a));
  ptx::st<kBytes>(out + 32 * kBytes, ptx::ld_evict_first<kBytes>(a));
}

/// Copies 32 bytes of each of 32 threads, all but those from byte `size` on, in accesses of kBytes.
template <int kBytes>
__device__ void MoveWords(const ProbeParams& p) {
  uint32_t words[8];
  tile::LoadWords<kBytes>(static_cast<const char*>(p.a) + threadIdx.x * 32, p.size, words);
  tile::StoreWords<kBytes>(static_cast<char*>(p.out) + threadIdx.x * 32, 32, words);
  tile::StoreWords<kBytes>(static_cast<char*>(p.out) + (32 + threadIdx.x) * 32, p.size, words);
}

/// Blocks leave a value each in a [grid]; the last one to come adds them up. b: the counter.
__device__ void SumOfBlocks(const ProbeParams& p) {
  auto* values = static_cast<uint32_t*>(const_cast<void*>(p.a));
  __shared__ bool is_last;
  if (threadIdx.x == 0) values[blockIdx.x] = blockIdx.x + 1;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    auto* counter = static_cast<uint32_t*>(const_cast<void*>(p.b));
    is_last = ptx::atom_inc_acq_rel(counter, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last || threadIdx.x != 0) return;
  uint32_t sum = 0;
  for (uint32_t i = 0; i < gridDim.x; ++i) sum += __ldcg(values + i);
  static_cast<uint32_t*>(p.out)[0] = sum;
}

/// Adds 1 to `size` words, each by one thread of a chain of launches that overlap.
__device__ void AddOne(const ProbeParams& p) {
  ptx::griddepcontrol_launch_dependents();
  ptx::griddepcontrol_wait();
  const int64_t i = int64_t{blockIdx.x} * 256 + threadIdx.x;
  if (i < p.size) static_cast<uint32_t*>(p.out)[i] += 1;
}

}  // namespace flashinfer::probe
