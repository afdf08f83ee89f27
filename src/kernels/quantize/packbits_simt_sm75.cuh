// SPDX-License-Identifier: Apache-2.0
// Packing of truth values into bits: a thread makes a byte from 8 of them, loaded in one access
// where they are aligned. Bound by bytes.
#pragma once

#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/quantize/packbits_spec.h"

namespace flashinfer::kernels::packbits_simt {

/// Bit of the byte that holds value i of 8.
template <PackBitsSpec kSpec>
__device__ __forceinline__ uint32_t BitOf(int i) {
  return kSpec.little ? 1u << i : 0x80u >> i;
}

template <PackBitsSpec kSpec>
__device__ __forceinline__ uint32_t PackWord(uint32_t word, int first) {
  uint32_t bits = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if ((word >> (8 * i) & 0xffu) != 0) bits |= BitOf<kSpec>(first + i);
  }
  return bits;
}

template <PackBitsSpec kSpec>
__device__ __forceinline__ void Run(const PackBitsKernelParams& p) {
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  const PackBitsSegment& segment = p.segments[blockIdx.y];
  const int64_t byte = int64_t{blockIdx.x} * NumThreads(kSpec) + threadIdx.x;
  const int64_t left = segment.num_elements - byte * 8;
  if (left <= 0) return;
  const uint8_t* x = p.x + segment.begin + byte * 8;
  uint32_t bits = 0;
  if (kSpec.is_packed && left >= 8) {
    const ptx::Words<8> words = ptx::ld<8>(x);
    bits = PackWord<kSpec>(words.w[0], 0) | PackWord<kSpec>(words.w[1], 4);
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < left && x[i] != 0) bits |= BitOf<kSpec>(i);
    }
  }
  p.packed[segment.packed_begin + byte] = static_cast<uint8_t>(bits);
}

}  // namespace flashinfer::kernels::packbits_simt
