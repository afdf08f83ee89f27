// SPDX-License-Identifier: Apache-2.0
// The counter-based random source of the samplers, on host and device.
#pragma once

#if !defined(__CUDACC_RTC__)  // the compiler of kernels has integer types, and no such header
#include <cstdint>
#endif

namespace flashinfer {

/// 128 random bits, as four words.
struct PhiloxBlock {
  uint32_t word[4];
};

/// Philox4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011).
constexpr PhiloxBlock Philox4x32(PhiloxBlock counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * counter.word[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {{static_cast<uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0,
                static_cast<uint32_t>(product1),
                static_cast<uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1,
                static_cast<uint32_t>(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

/// Word number `offset` of the sequence (seed, subsequence): what curand() returns first after
/// curand_init(seed, subsequence, offset) of a Philox state.
constexpr uint32_t PhiloxWord(uint64_t seed, uint64_t subsequence, uint64_t offset) {
  const uint64_t block = offset / 4;
  const PhiloxBlock counter{{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                             static_cast<uint32_t>(subsequence),
                             static_cast<uint32_t>(subsequence >> 32)}};
  return Philox4x32(counter, static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32))
      .word[offset % 4];
}

/// That word as a uniform number in (0, 1]: (word + 1) / 2^32, exact, as curand_uniform_double().
constexpr double PhiloxUniform(uint64_t seed, uint64_t subsequence, uint64_t offset) {
  return (static_cast<double>(PhiloxWord(seed, subsequence, offset)) + 1.0) * (1.0 / 4294967296.0);
}

}  // namespace flashinfer
