// SPDX-License-Identifier: Apache-2.0
// RoPE: every candidate against a float64 loop, angles far out, and its errors.
#include "flashinfer/rope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ops/rope.h"
#include "support/candidates.h"
#include "support/cases/rope.h"
#include "support/compare.h"
#include "support/host_tensor.h"

namespace flashinfer::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

int64_t RotaryDim(const RopeCase& c) { return c.rotary_dim == 0 ? c.head_dim : c.rotary_dim; }

/// Values of heads [num_tokens, num_heads, head_dim], rotated.
std::vector<double> Oracle(std::vector<double> x, int64_t num_heads, const RopeCase& c,
                           const HostTensor& pos_ids, const HostTensor& factors) {
  const int64_t num_pairs = RotaryDim(c) / 2;
  for (int64_t row = 0; row < c.num_tokens * num_heads; ++row) {
    for (int64_t i = 0; i < num_pairs; ++i) {
      const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(RotaryDim(c));
      const double frequency = std::pow(static_cast<double>(c.rope_theta), exponent) /
                               static_cast<double>(c.rope_scale) /
                               (c.has_factors ? factors.At({i}) : 1.0);
      const double angle = pos_ids.At({row / num_heads}) * frequency;
      double& a = x[static_cast<size_t>(row * c.head_dim + (c.interleaved ? 2 * i : i))];
      double& b =
          x[static_cast<size_t>(row * c.head_dim + (c.interleaved ? 2 * i + 1 : i + num_pairs))];
      const double rotated = a * std::cos(angle) - b * std::sin(angle);
      b = b * std::cos(angle) + a * std::sin(angle);
      a = rotated;
    }
  }
  return x;
}

HostTensor MakeHeads(const RopeCase& c, int64_t num_heads) {
  const int64_t head = c.head_dim + c.head_padding;
  return {c.dtype,
          {c.num_tokens, num_heads, c.head_dim},
          {num_heads * head + 2 * c.head_padding, head, 1},
          c.head_padding};
}

class RopeCaseTest : public ::testing::TestWithParam<RopeCase> {};

TEST_P(RopeCaseTest, EveryCandidateMatchesTheOracle) {
  const RopeCase& c = GetParam();
  std::mt19937_64 rng(11);
  HostTensor pos_ids(c.dtype_pos_ids, {c.num_tokens});
  pos_ids.FillUniform(rng, 0, static_cast<double>(c.max_position));
  if (c.num_tokens > 1) pos_ids.Set({1}, static_cast<double>(c.max_position));
  HostTensor factors(DType::kF32, {RotaryDim(c) / 2});
  factors.FillUniform(rng, 1, 8);
  const RopeProblem problem{c.dtype, c.interleaved, RotaryDim(c)};
  for (const std::string& candidate : AcceptingCandidates<RopeOp>(problem)) {
    SCOPED_TRACE(FieldsText(candidate, c));
    HostTensor q = MakeHeads(c, c.num_qo_heads);
    HostTensor k = MakeHeads(c, c.num_kv_heads);
    q.FillNormal(rng);
    k.FillNormal(rng);
    const auto expected_q = Oracle(q.Values(), c.num_qo_heads, c, pos_ids, factors);
    const auto expected_k = Oracle(k.Values(), c.num_kv_heads, c, pos_ids, factors);
    HostTensor other_q = MakeHeads(c, c.num_qo_heads);
    HostTensor other_k = MakeHeads(c, c.num_kv_heads);
    const HostTensor& q_out = c.in_place ? q : other_q;
    const HostTensor& k_out = c.in_place ? k : other_k;
    ApplyRope(q, k, pos_ids, q_out, k_out,
              {.style = c.interleaved ? RopeStyle::kInterleaved : RopeStyle::kNeox,
               .rotary_dim = c.rotary_dim,
               .rope_theta = c.rope_theta,
               .rope_scale = c.rope_scale,
               .frequency_factors = c.has_factors ? factors.view() : TensorView(),
               .backend = Backend(candidate)});
    EXPECT_TRUE(AllNear(q_out, expected_q, ToleranceOf(c.dtype)));
    EXPECT_TRUE(AllNear(k_out, expected_k, ToleranceOf(c.dtype)));
  }
}

INSTANTIATE_TEST_SUITE_P(Shared, RopeCaseTest, ::testing::ValuesIn(RopeCases()));

TEST(Rope, AngleOfTheFastestPairIsThePositionEvenFarOut) {
  for (const std::string& candidate : AcceptingCandidates<RopeOp>({DType::kF32, true, 2})) {
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
