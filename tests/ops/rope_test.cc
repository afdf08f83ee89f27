// SPDX-License-Identifier: Apache-2.0
// RoPE: every candidate against a float64 loop, angles far out, and its errors.
#include "flashinfer/rope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ops/rope.h"
#include "support/candidates.h"
#include "support/cases/rope.h"
#include "support/checks/rope.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/host_tensor.h"

namespace flashinfer::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class RopeCaseTest : public ::testing::TestWithParam<RopeCase> {};

TEST_P(RopeCaseTest, EveryCandidateMatchesTheOracle) { ExpectCaseHolds(CheckRope, GetParam()); }

INSTANTIATE_TEST_SUITE_P(Shared, RopeCaseTest, ::testing::ValuesIn(RopeCases()));

TEST(Rope, AngleOfTheFastestPairIsThePositionEvenFarOut) {
  for (const std::string& candidate : AcceptingCandidates<RopeOp>({.dtype = DType::kF32,
                                      .dtype_out = DType::kF32,
                                      .interleaved = true,
                                      .rotary_dim = 2})) {
    for (int64_t position : {0, 1, 1000003, 999999937, -5}) {
      HostTensor q(DType::kF32, {1, 1, 2});
      q.FillWith({1, 0});
      HostTensor k(DType::kF32, {1, 0, 2});
      HostTensor pos_ids(DType::kI64, {1});
      pos_ids.Fill(static_cast<double>(position));
      ApplyRope(q, k, pos_ids, q, k,
                {.style = RopeStyle::kInterleaved, .backend = Backend(candidate)});
      EXPECT_NEAR(q.At({0, 0, 0}), std::cos(static_cast<double>(position)), 4e-7) << candidate;
      EXPECT_NEAR(q.At({0, 0, 1}), std::sin(static_cast<double>(position)), 4e-7) << candidate;
    }
  }
}

TEST(Rope, Llama31LeavesFastPairsAloneAndSlowsTheOthersDown) {
  // Of head_dim 128 and theta 5e5, pair 63 turns 0.0032 times within 8192 tokens, pair 10 167
  // times.
  HostTensor q(DType::kF32, {1, 1, 128});
  HostTensor k(DType::kF32, {1, 0, 128});
  HostTensor pos_ids(DType::kI32, {1});
  pos_ids.Fill(100000);
  q.Fill(0);
  q.Set({0, 0, 10}, 1);
  q.Set({0, 0, 63}, 1);
  ApplyRope(q, k, pos_ids, q, k,
            {.rope_theta = 5e5f, .rope_scale = 8.0f, .scaling = RopeScaling::kLlama31});
  EXPECT_NEAR(q.At({0, 0, 10}), std::cos(1e5 * std::pow(5e5, -20.0 / 128)), 1e-6);
  EXPECT_NEAR(q.At({0, 0, 63}), std::cos(1e5 / 8 * std::pow(5e5, -126.0 / 128)), 1e-6);
}

TEST(Rope, AnAttentionFactorReplacesYarnsOwn) {
  HostTensor q(DType::kF32, {1, 1, 2});
  HostTensor k(DType::kF32, {1, 0, 2});
  HostTensor pos_ids(DType::kI32, {1});
  pos_ids.Fill(0);
  for (float factor : {0.0f, 0.5f}) {
    q.FillWith({1, 0});
    ApplyRope(q, k, pos_ids, q, k,
              {.rope_scale = 4.0f, .scaling = RopeScaling::kYarn, .attention_factor = factor});
    EXPECT_NEAR(q.At({0, 0, 0}), factor == 0 ? 1 + 0.1 * std::log(4.0) : 0.5, 1e-6);
  }
}

/// Parts of latent attention: 64 rotated elements and 512 others, one key a token.
TEST(RopeQuantize, RotatesOnePartAndNarrowsAll) {
  const RopeCase c{.dtype_out = DType::kE4M3, .num_qo_heads = 3, .num_kv_heads = 1, .head_dim = 64};
  std::mt19937_64 rng(13);
  const RopeInputs in(c, rng);
  for (const auto& [candidate, device] : CandidatesOnDevices<RopeOp>(ProblemOf(c))) {
    DeviceCopies on(device);
    SCOPED_TRACE(candidate);
    HostTensor q(c.dtype, {13, 3, 64});
    HostTensor k(c.dtype, {13, 64});
    HostTensor q_nope(c.dtype, {13, 3, 512});
    HostTensor k_nope(c.dtype, {13, 511}, {600, 1});
    for (HostTensor* tensor : {&q, &k, &q_nope, &k_nope}) tensor->FillNormal(rng);
    HostTensor q_out(c.dtype_out, {13, 3, 64});
    HostTensor k_out(c.dtype_out, {13, 64});
    HostTensor q_nope_out(c.dtype_out, {13, 3, 512});
    HostTensor k_nope_out(c.dtype_out, {13, 511}, {512, 1});
    RopeQuantize({.q_rope = on(q),
                  .k_rope = on(k),
                  .q_nope = on(q_nope),
                  .k_nope = on(k_nope),
                  .q_rope_out = on(q_out),
                  .k_rope_out = on(k_out),
                  .q_nope_out = on(q_nope_out),
                  .k_nope_out = on(k_nope_out)},
                 on(in.pos_ids),
                 {.quant_scale_q = 2, .quant_scale_kv = 200, .backend = Backend(candidate)});
    on.Fetch();
    const Tolerance tolerance = ToleranceOf(c.dtype_out);
    EXPECT_TRUE(
        AllNear(q_out, Scaled(RopeOracle(q.Values(), 3, c, in), 2, c.dtype_out), tolerance));
    EXPECT_TRUE(
        AllNear(k_out, Scaled(RopeOracle(k.Values(), 1, c, in), 200, c.dtype_out), tolerance));
    EXPECT_TRUE(AllNear(q_nope_out, Scaled(q_nope.Values(), 2, c.dtype_out), tolerance));
    EXPECT_TRUE(AllNear(k_nope_out, Scaled(k_nope.Values(), 200, c.dtype_out), tolerance));
  }
}

TEST(RopeQuantize, ErrorsNameThePart) {
  HostTensor q(DType::kBF16, {2, 3, 8});
  HostTensor k(DType::kBF16, {2, 8});
  HostTensor q_out(DType::kE4M3, {2, 3, 8});
  HostTensor k_out(DType::kE4M3, {2, 8});
  HostTensor k_e5m2(DType::kE5M2, {2, 8});
  HostTensor pos_ids(DType::kI32, {2});
  pos_ids.Fill(0);
  RopeParts parts{.q_rope = q, .k_rope = k, .q_rope_out = q, .k_rope_out = k};
  EXPECT_THAT([&] { RopeQuantize(parts, pos_ids); },
              ThrowsMessage<Error>("q_rope_out: dtype is bf16, accepted: e4m3, e5m2"));
  parts.q_rope_out = q_out;
  parts.k_rope_out = k_e5m2;
  EXPECT_THAT([&] { RopeQuantize(parts, pos_ids); },
              ThrowsMessage<Error>("k_rope_out: dtype is e5m2, accepted: e4m3"));
  parts.k_rope_out = k_out;
  parts.q_nope = q;
  EXPECT_THAT([&] { RopeQuantize(parts, pos_ids); },
              ThrowsMessage<Error>("q_nope_out: no tensor was given"));
}

TEST(Rope, ErrorsNameThePositions) {
  HostTensor q(DType::kBF16, {3, 2, 8});
  HostTensor k(DType::kBF16, {3, 1, 8});
  HostTensor pos_ids(DType::kI32, {3});
  pos_ids.FillWith({0, 9, 10});
  HostTensor cache(DType::kF32, {10, 8});
  HostTensor narrow_cache(DType::kF32, {10, 6});
  HostTensor half_cache(DType::kF16, {10, 8});
  EXPECT_THAT([&] { ApplyRope(q, k, pos_ids, q, k, {.cos_sin_cache = cache}); },
              ThrowsMessage<Error>("cos_sin_cache: has 10 positions, token 2 is at 10"));
  EXPECT_THAT([&] { ApplyRope(q, k, pos_ids, q, k, {.cos_sin_cache = narrow_cache}); },
              ThrowsMessage<Error>("cos_sin_cache: shape is [10, 6], expected [any, 8]"));
  EXPECT_THAT([&] { ApplyRope(q, k, pos_ids, q, k, {.cos_sin_cache = half_cache}); },
              ThrowsMessage<Error>("cos_sin_cache: dtype is f16, accepted: f32"));
  HostTensor indptr(DType::kI32, {3});
  indptr.FillWith({0, 1, 3});
  HostTensor short_indptr(DType::kI32, {3});
  short_indptr.FillWith({0, 1, 2});
  HostTensor offsets(DType::kI32, {2});
  offsets.FillWith({9, 9});
  EXPECT_THAT(
      [&] {
        ApplyRopeByOffsets(q, k, {indptr, offsets}, q, k, {.cos_sin_cache = cache});
      },
      ThrowsMessage<Error>("cos_sin_cache: has 10 positions, token 2 is at 10"));
  EXPECT_THAT(
      [&] {
        ApplyRopeByOffsets(q, k, {short_indptr, offsets}, q, k);
      },
      ThrowsMessage<Error>("indptr: ends at 2, expected num_tokens 3"));
  EXPECT_THAT(
      [&] {
        ApplyRopeByOffsets(q, k, {indptr, indptr}, q, k);
      },
      ThrowsMessage<Error>("offsets: shape is [3], expected [2]"));
  EXPECT_THAT([&] { ApplyRopeByOffsets(q, k, {}, q, k); },
              ThrowsMessage<Error>("indptr: no tensor was given"));
}

TEST(Rope, ErrorsNameTheScaling) {
  HostTensor q(DType::kBF16, {1, 1, 8});
  HostTensor k(DType::kBF16, {1, 1, 8});
  HostTensor pos_ids(DType::kI32, {1});
  pos_ids.Fill(0);
  const auto apply = [&](const RopeOptions& options) { ApplyRope(q, k, pos_ids, q, k, options); };
  EXPECT_THAT([&] { apply({.scaling = RopeScaling::kLlama31, .low_freq_factor = 4.0f}); },
              ThrowsMessage<Error>("high_freq_factor: is 4, expected more than low_freq_factor 4"));
  EXPECT_THAT([&] { apply({.scaling = RopeScaling::kYarn, .old_context_len = 0}); },
              ThrowsMessage<Error>("old_context_len: is 0, expected 1 or more"));
  EXPECT_THAT([&] { apply({.scaling = RopeScaling::kYarn, .beta_slow = 64.0f}); },
              ThrowsMessage<Error>(HasSubstr("beta_fast and beta_slow: are 32 and 64")));
}

TEST(Rope, ErrorsNameArgumentValueAndWhatIsAccepted) {
  HostTensor q(DType::kBF16, {2, 3, 8});
  HostTensor k(DType::kBF16, {2, 1, 8});
  HostTensor k_f16(DType::kF16, {2, 1, 8});
  HostTensor pos_ids(DType::kI32, {2});
  HostTensor short_ids(DType::kI32, {1});
  HostTensor factors(DType::kF32, {3});
  EXPECT_THAT([&] { ApplyRope(q, k_f16, pos_ids, q, k_f16); },
              ThrowsMessage<Error>("k: dtype is f16, accepted: bf16"));
  EXPECT_THAT([&] { ApplyRope(q, k, short_ids, q, k); },
              ThrowsMessage<Error>("pos_ids: shape is [1], expected [2]"));
  EXPECT_THAT([&] { ApplyRope(q, k, q, q, k); },
              ThrowsMessage<Error>("pos_ids: dtype is bf16, accepted: i32, i64"));
  EXPECT_THAT([&] { ApplyRope(q, k, pos_ids, q, k, {.rotary_dim = 10}); },
              ThrowsMessage<Error>("rotary_dim: is 10, accepted: even, 0 to head_dim 8"));
  EXPECT_THAT([&] { ApplyRope(q, k, pos_ids, q, k, {.rotary_dim = 3}); },
              ThrowsMessage<Error>(HasSubstr("rotary_dim: is 3")));
  EXPECT_THAT([&] { ApplyRope(q, k, pos_ids, q, k, {.rope_theta = 0.0f}); },
              ThrowsMessage<Error>("rope_theta: is 0, expected more than 0"));
  EXPECT_THAT([&] { ApplyRope(q, k, pos_ids, q, k, {.frequency_factors = factors}); },
              ThrowsMessage<Error>("frequency_factors: shape is [3], expected [4]"));
}

}  // namespace
}  // namespace flashinfer::test
