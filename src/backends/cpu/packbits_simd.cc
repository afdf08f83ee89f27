// SPDX-License-Identifier: Apache-2.0
// Packing of bytes into bits. Bound by memory.
#include "backends/cpu/packbits.h"
#include "backends/cpu/simd/simd.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

/// The first `n` of up to eight elements.
inline uint8_t PackOne(const uint8_t* x, int64_t n, bool little) {
  unsigned byte = 0;
  for (int64_t i = 0; i < n; ++i) {
    byte |= (x[i] != 0 ? 1u : 0u) << (little ? i : 7 - i);
  }
  return static_cast<uint8_t>(byte);
}

#if defined(__AVX2__)
/// Which bytes are nonzero, the first in the lowest bit.
inline uint32_t NonzeroBytes(__m256i v) {
  return ~static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(v, _mm256_setzero_si256())));
}

/// Reverses every eight bytes.
inline __m256i ReverseEights(__m256i v) {
  const __m256i order = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8));
  return _mm256_shuffle_epi8(v, order);
}
#endif

}  // namespace

void PackBytes(const uint8_t* x, uint8_t* packed, int64_t count, bool little) {
  int64_t i = 0;
#if defined(__AVX2__)
  for (; i + 32 <= count; i += 32) {
    const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i));
    const uint32_t bits = NonzeroBytes(little ? v : ReverseEights(v));
    __builtin_memcpy(packed + i / 8, &bits, sizeof(bits));
  }
#endif
  for (; i < count; i += 8) {
    packed[i / 8] = PackOne(x + i, count - i < 8 ? count - i : 8, little);
  }
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
