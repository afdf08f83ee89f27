// SPDX-License-Identifier: Apache-2.0
// The random source against published vectors, and how seeds, rows and offsets select words.
#include "core/philox.h"

#include <gtest/gtest.h>

namespace flashinfer {
namespace {

struct KnownAnswer {
  PhiloxBlock counter;
  uint32_t key0;
  uint32_t key1;
  PhiloxBlock result;
};

TEST(Philox, MatchesTheVectorsOfRandom123) {
  const KnownAnswer answers[] = {
      {{{0, 0, 0, 0}}, 0, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
      {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
       0xffffffff,
       0xffffffff,
       {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
      {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
       0xa4093822,
       0x299f31d0,
       {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}}};
  for (const KnownAnswer& answer : answers) {
    const PhiloxBlock block = Philox4x32(answer.counter, answer.key0, answer.key1);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(block.word[i], answer.result.word[i]) << i;
  }
}

TEST(Philox, SeedIsTheKeySubsequenceAndOffsetTheCounter) {
  const uint64_t seed = 0x299f31d0a4093822;
  const uint64_t subsequence = 0x0370734413198a2e;
  const uint64_t first_offset = 0x05a308d3243f6a88 * 4;
  const PhiloxBlock block =
      Philox4x32({{0x243f6a88, 0x05a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0);
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(PhiloxWord(seed, subsequence, first_offset + i), block.word[i]);
  }
  EXPECT_EQ(PhiloxWord(0, 0, 0), 0x6627e8d5u);
  EXPECT_EQ(PhiloxWord(0, 0, 3), 0x9b00dbd8u);
}

TEST(Philox, UniformsAreAboveZeroAndAtMostOne) {
  static_assert(PhiloxUniform(0, 0, 0) == (0x6627e8d5 + 1.0) / 4294967296.0);
  double sum = 0;
  for (uint64_t i = 0; i < 100000; ++i) {
    const double u = PhiloxUniform(1, i, 0);
    EXPECT_GT(u, 0);
    EXPECT_LE(u, 1);
    sum += u;
  }
  EXPECT_NEAR(sum / 100000, 0.5, 5 * 0.2887 / 316.2);
}

}  // namespace
}  // namespace flashinfer
