// SPDX-License-Identifier: Apache-2.0
// Custom and multi-item masks, biases, and what may lie in keys that are not seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "ops/batch_prefill.h"
#include "support/attention_compare.h"
#include "support/cases/attention.h"

namespace flashinfer::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr double kInf = std::numeric_limits<double>::infinity();

AttentionCase Small(MaskMode mask, std::vector<int32_t> q_len, std::vector<int32_t> kv_len) {
  AttentionCase c{AttentionOf(DType::kF32, DType::kF32, DType::kF32, 8, 4, 128, 128, 16),
                  std::move(q_len), std::move(kv_len)};
  c.problem.mask = mask;
  return c;
}

TEST(AttentionMask, BitsAreBytewiseAndGiveWhatBoolsGive) {
  AttentionCase c = Small(MaskMode::kCustom, {3, 2}, {5, 7});
  AttentionInputs in(c, 71);
  EXPECT_EQ(in.packed_custom.view().num_elements(), 4);  // two bytes a request
  for (int64_t j = 0; j < 5; ++j) in.SetMask(0, 1, j, false);
  const AttentionResult expected = AttentionOracle(c, in);
  Workspace workspace;
  RunPrefill(c, in, workspace);
  ExpectMatches(c, in, expected);
  EXPECT_EQ(in.out.At({1, 0, 0}), 0);
  EXPECT_EQ(in.lse.At({1, 0}), -kInf);
  const std::vector<double> bools = in.out.Values();
  BatchPrefill prefill(workspace);
  prefill.Plan(c.problem, in.qo_indptr_view(), in.pages(), {.custom = in.packed_custom});
  prefill.Run(in.q, in.cache(), in.out, in.lse);
  EXPECT_EQ(in.out.Values(), bools);
}

TEST(AttentionMask, AWrongShapeIsAnError) {
  const AttentionCase c = Small(MaskMode::kCustom, {10}, {20});
  AttentionCase ragged = c;
  ragged.is_ragged = true;
  const AttentionInputs in(ragged, 72);
  Workspace workspace;
  for (const auto& [rows, cols] : {std::pair{10, 15}, {20, 10}, {9, 20}}) {
    HostTensor wrong(DType::kBool, {rows, cols});
    wrong.Fill(1);
    EXPECT_THAT(
        [&] {
          SinglePrefill(c.problem, {in.q, in.ragged(), in.out, in.lse, {.custom = wrong}},
                        workspace);
        },
        ThrowsMessage<Error>(
            fmt::format("mask.custom: shape is [{}, {}], expected [10, 20]", rows, cols)));
  }
  BatchPrefillRagged prefill(workspace);
  const auto plan = [&](const TensorView& custom) {
    return [&, custom] {
      prefill.Plan(c.problem, in.qo_indptr_view(), in.kv_indptr_view(), {.custom = custom});
    };
  };
  HostTensor few(DType::kBool, {150});
  EXPECT_THAT(plan(few), ThrowsMessage<Error>(HasSubstr("has 150 values, expected 200")));
  HostTensor few_bytes(DType::kU8, {24});
  EXPECT_THAT(plan(few_bytes), ThrowsMessage<Error>(HasSubstr("has 24 bytes, expected 25")));
  EXPECT_THAT(plan(TensorView()), ThrowsMessage<Error>("mask.custom: no tensor was given"));
  EXPECT_THAT(
      [&] {
        AttentionProblem causal = c.problem;
        causal.mask = MaskMode::kCausal;
        prefill.Plan(causal, in.qo_indptr_view(), in.kv_indptr_view(), in.mask());
      },
      ThrowsMessage<Error>("mask.custom: was given, but mask is causal, not custom"));
  plan(in.custom)();  // a right call still works
  prefill.Run(in.q, in.ragged(), in.out, in.lse);
  ExpectMatches(ragged, in, AttentionOracle(ragged, in));
}

TEST(AttentionMask, APlanWithoutMaskForgetsTheOneBefore) {
  const AttentionCase custom = Small(MaskMode::kCustom, {6}, {20});
  AttentionCase causal = custom;
  causal.problem.mask = MaskMode::kCausal;
  const AttentionInputs in(custom, 73);
  Workspace workspace;
  BatchPrefill prefill(workspace);
  prefill.Plan(custom.problem, in.qo_indptr_view(), in.pages(), in.mask());
  prefill.Run(in.q, in.cache(), in.out, in.lse);
  prefill.Plan(causal.problem, in.qo_indptr_view(), in.pages());
  prefill.Run(in.q, in.cache(), in.out, in.lse);
  const AttentionInputs same(custom, 73);
  BatchPrefill fresh(workspace);
  fresh.Plan(causal.problem, same.qo_indptr_view(), same.pages());
  fresh.Run(same.q, same.cache(), same.out, same.lse);
  EXPECT_EQ(in.out.bytes(), same.out.bytes());
  EXPECT_EQ(in.lse.bytes(), same.lse.bytes());
}

TEST(AttentionMask, ItemsSeeThePrefixAndThemselves) {
  // Prefix 2, then items of 2 and 1 tokens, each after a delimiter: keys 0 1 | d a a d b.
  AttentionCase c = Small(MaskMode::kMultiItem, {7}, {7});
  AttentionInputs in(c, 74);
  in.prefix_len = {2};
  const int places[] = {0, 1, 2, 0, 1};
  for (int64_t j = 0; j < 5; ++j) in.token_pos.Set({0, j}, places[j]);
  for (int64_t t = 0; t < 7; ++t) {
    for (int64_t g = 0; g < 4; ++g) {
      for (int64_t d = 0; d < 128; ++d) {
        in.SetKey(0, t, g, d, 0);
        in.SetValue(0, t, g, d, t < 2 ? 0 : static_cast<double>(1 << t));
      }
    }
  }
  Workspace workspace;
  RunPrefill(c, in, workspace);
  const double expected[] = {0, 0, 0, 8.0 / 3, 24.0 / 4, 0, 64.0 / 3};
  for (int64_t i = 0; i < 7; ++i) EXPECT_NEAR(in.out.At({i, 0, 0}), expected[i], 1e-5) << i;
}

TEST(AttentionMask, APrefixLongerThanTheKeysIsAnError) {
  const AttentionCase c = Small(MaskMode::kMultiItem, {7, 2}, {7, 3});
  AttentionInputs in(c, 75);
  Workspace workspace;
  for (const int32_t prefix : {-1, 4}) {
    in.prefix_len = {2, prefix};
    EXPECT_THAT([&] { RunPrefill(c, in, workspace); },
                ThrowsMessage<Error>(fmt::format(
                    "mask.prefix_len[1]: is {}, expected 0 to the request's kv_len, 3", prefix)));
  }
}

/// Keys that no row or only some rows see hold NaN and infinity: rows that do not see them must be
/// as if they held anything else.
TEST(AttentionMask, WhatIsNotSeenMayBeNaN) {
  AttentionCase masked = Small(MaskMode::kCustom, {80}, {90});
  AttentionCase causal = Small(MaskMode::kCausal, {80}, {90});
  AttentionCase biased = Small(MaskMode::kNone, {80}, {90});
  biased.problem.has_bias = true;
  AttentionCase window = causal;
  window.problem.window_left = 20;
  for (const AttentionCase& c : {masked, causal, biased, window}) {
    for (const std::string& candidate : AcceptingCandidates<BatchPrefillOp>(c.problem)) {
      SCOPED_TRACE(CaseText(candidate, c));
      AttentionInputs in(c, 75);
      constexpr int64_t kBadKey = 70;
      constexpr int64_t kLastRow = 50;  // rows before this do not see it
      for (int64_t i = 0; i < kLastRow; ++i) {
        if (c.problem.mask == MaskMode::kCustom) in.SetMask(0, i, kBadKey, false);
        if (!c.problem.has_bias) continue;
        for (int64_t h = 0; h < 8; ++h) in.bias.Set({h, i, kBadKey}, -kInf);
      }
      const AttentionResult expected = AttentionOracle(c, in);
      for (int64_t g = 0; g < 4; ++g) {
        for (int64_t d = 0; d < 128; ++d) {
          in.SetKey(0, kBadKey, g, d, std::nan(""));
          in.SetValue(0, kBadKey, g, d, d % 2 == 0 ? std::nan("") : kInf);
        }
      }
      Workspace workspace;
      RunPrefill(c, in, workspace, candidate);
      for (int64_t i = 0; i < kLastRow; ++i) {
        for (int64_t h = 0; h < 8; ++h) {
          for (int64_t d = 0; d < 128; d += 13) {
            const auto at = static_cast<size_t>((i * 8 + h) * 128 + d);
            ASSERT_TRUE(Near(in.out.At({i, h, d}), expected.out[at], ToleranceOf(DType::kF32, 512)))
                << i << " " << in.out.At({i, h, d});
          }
        }
      }
    }
  }
}

TEST(AttentionMask, BiasAndSinksMustFitThePlan) {
  AttentionCase c = Small(MaskMode::kNone, {3}, {20});
  c.problem.has_bias = true;
  AttentionInputs in(c, 76);
  Workspace workspace;
  BatchPrefill prefill(workspace);
  prefill.Plan(c.problem, in.qo_indptr_view(), in.pages());
  const auto run = [&](const AttentionExtras& extras) {
    return [&, extras] { prefill.Run(in.q, in.cache(), in.out, in.lse, extras); };
  };
  EXPECT_THAT(run({}), ThrowsMessage<Error>(HasSubstr("bias: no tensor was given")));
  const HostTensor few(DType::kF32, {8, 3, 19});
  EXPECT_THAT(run({.bias = few}),
              ThrowsMessage<Error>("bias: has 19 keys, the longest kv_len is 20"));
  const HostTensor sinks(DType::kF32, {8});
  EXPECT_THAT(run({.sinks = sinks, .bias = in.bias}),
              ThrowsMessage<Error>(HasSubstr("sinks: were given")));
  const HostTensor scales(DType::kF32, {8});
  EXPECT_THAT(run({.k_scales = scales, .bias = in.bias}),
              ThrowsMessage<Error>("k_scales: shape is [8], expected [4]"));
  for (double x : in.out.Values()) ASSERT_TRUE(std::isnan(x));  // nothing was written
}

}  // namespace
}  // namespace flashinfer::test
