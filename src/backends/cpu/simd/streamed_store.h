// SPDX-License-Identifier: Apache-2.0
// Stores of whole vectors that go to memory past the caches, for outputs too large to stay in them.
#pragma once

#include "backends/cpu/simd/simd.h"

namespace flashinfer::cpu::FLASHINFER_ISA {

/// Whether a call that writes so many bytes in all streams them: the caches spare a line the read
/// before its first write. From 4 MiB, a core's share of a 32 MB cache that eight have, that is the
/// faster way even to a buffer which the call before has left there (Zen 4, 2026-11).
inline bool StreamsOutput(int64_t bytes) { return bytes >= int64_t{4} << 20; }

/// Whether Stream() takes addresses that are whole vectors after `p`.
template <class T>
inline bool IsStreamable(const T* p) {
  return reinterpret_cast<uintptr_t>(p) % (F32::kWidth * sizeof(T)) == 0;
}

/// Store() past the caches, of vectors of 32 bytes or more: four streams of 16 bytes to a line take
/// longer than its read (1.4 times, Zen 4, 2026-11). Other threads see it after FinishStreams().
template <class T>
inline void Stream(T* p, F32 v) {
#if defined(__AVX2__)
  alignas(64) T lanes[F32::kWidth];
  Store(lanes, v);
  if constexpr (sizeof(lanes) == 32) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(p), *reinterpret_cast<const __m256i*>(lanes));
    return;
  }
#if defined(__AVX512F__)
  if constexpr (sizeof(lanes) == 64) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(p), *reinterpret_cast<const __m512i*>(lanes));
    return;
  }
#endif
#endif
  Store(p, v);
}

/// Orders streamed stores before all later ones, such as those that end a parallel region.
inline void FinishStreams() {
#if defined(__AVX2__)
  _mm_sfence();
#endif
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
