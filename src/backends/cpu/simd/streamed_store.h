// SPDX-License-Identifier: Apache-2.0
// Stores of whole cache lines that go to memory past the caches, for outputs too large to stay in
// them.
#pragma once

#include "backends/cpu/simd/simd.h"

namespace flashinfer::cpu::FLASHINFER_ISA {

/// Whether a call that writes so many bytes in all streams them: the caches spare a line the read
/// before its first write. From 4 MiB, a core's share of a 32 MB cache that eight have, that is the
/// faster way even to a buffer which the call before has left there (Zen 4, 2026-11).
inline bool StreamsOutput(int64_t bytes) { return bytes >= int64_t{4} << 20; }

/// Whether StreamLine() takes addresses that are whole lines after `p`.
template <class T>
inline bool IsStreamable(const T* p) {
  return reinterpret_cast<uintptr_t>(p) % 64 == 0;
}

/// StoreLine() past the caches. Other threads see it after FinishStreams().
template <class T>
inline void StreamLine(T* p, const F32 (&v)[kLineVectors<T>]) {
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(p), LineOf(v, T{}));
#elif defined(__AVX2__)
  alignas(64) T line[64 / sizeof(T)];
  StoreLine(line, v);
  for (int i = 0; i < 2; ++i) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(p) + i,
                        _mm256_load_si256(reinterpret_cast<const __m256i*>(line) + i));
  }
#else
  StoreLine(p, v);
#endif
}

/// Orders streamed stores before all later ones, such as those that end a parallel region.
inline void FinishStreams() {
#if defined(__AVX2__)
  _mm_sfence();
#endif
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
