// SPDX-License-Identifier: Apache-2.0
// Attention over shared prefixes: any number of levels against the oracle over all keys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "flashinfer/attention/cascade.h"
#include "ops/batch_prefill.h"
#include "support/attention_compare.h"
#include "support/cases/attention.h"
#include "support/device.h"
#include "support/page_tables.h"

namespace flashinfer::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr double kInf = std::numeric_limits<double>::infinity();

/// Tables of one level, which the views point into.
struct LevelTables {
  std::vector<int32_t> qo_indptr{0};
  std::vector<int32_t> indptr{0};
  std::vector<int32_t> indices;
  std::vector<int32_t> last_page_len;

  /// A group of queries up to `q_end` over some pages.
  void Add(int32_t q_end, const int32_t* pages, int32_t num_pages, int32_t last) {
    qo_indptr.push_back(q_end);
    indices.insert(indices.end(), pages, pages + num_pages);
    indptr.push_back(indptr.back() + num_pages);
    last_page_len.push_back(last);
  }
  CascadeLevel view() const {
    return {ViewOf(qo_indptr), {ViewOf(indptr), ViewOf(indices), ViewOf(last_page_len)}};
  }
};

/// Four requests whose first `all` pages are the same, and whose next `half` are the same within
/// the first two and the last two.
struct Cascade {
  Cascade(const AttentionCase& c, int32_t all, int32_t half, uint64_t seed) : in(c, seed) {
    const auto pages = [&](size_t b) { return in.indices.data() + in.indptr[b]; };
    const int32_t page_size = c.problem.page_size;
    for (size_t b : {1, 2, 3}) std::copy_n(pages(0), all, in.indices.data() + in.indptr[b]);
    for (size_t b : {1, 3}) {
      std::copy_n(pages(b - 1) + all, half, in.indices.data() + in.indptr[b] + all);
    }
    levels.resize(3);
    levels[0].Add(in.qo_indptr[4], pages(0), all, page_size);
    levels[1].Add(in.qo_indptr[2], pages(0) + all, half, page_size);
    levels[1].Add(in.qo_indptr[4], pages(2) + all, half, page_size);
    for (size_t b = 0; b < 4; ++b) {
      const int32_t shared = all + half;
      const int32_t rest = in.indptr[b + 1] - in.indptr[b] - shared;
      levels[2].Add(in.qo_indptr[b + 1], pages(b) + shared, rest, in.last_page_len[b]);
    }
  }
  std::vector<CascadeLevel> views() const {
    std::vector<CascadeLevel> views;
    views.reserve(levels.size());
    for (const LevelTables& level : levels) views.push_back(level.view());
    return views;
  }
  AttentionInputs in;
  std::vector<LevelTables> levels;
};

void RunCascade(const AttentionCase& c, const Cascade& cascade, Workspace& workspace,
                std::string_view backend = "auto") {
  DeviceCopies on(workspace.device());
  std::vector<CascadeLevel> levels = cascade.views();
  for (CascadeLevel& level : levels) level.pages.indices = on(level.pages.indices);
  const AttentionInputs& in = cascade.in;
  const PagedKvCache cache = in.cache();
  on(in.k_pool);
  on(in.v_pool);
  MultiLevelCascadeAttention attention(workspace);
  attention.Plan(c.problem, levels, Backend(backend));
  attention.Run(on(in.q), {on(cache.k), on(cache.v), cache.layout}, on(in.out), on(in.lse),
                ExtrasOn(on, in));
  on.Fetch();
}

std::vector<AttentionCase> CascadeCases() {
  std::vector<AttentionCase> cases;
  for (MaskMode mask : {MaskMode::kNone, MaskMode::kCausal}) {
    for (DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
      AttentionCase c;
      c.problem = AttentionOf(t, t, t, 6, 2, 64, 64, 4);
      c.problem.mask = mask;
      c.q_len = {1, 1, 1, 1};  // decode
      c.kv_len = {33, 41, 40, 60};
      cases.push_back(c);
      c.q_len = {3, 1, 9, 5};  // append
      c.layout = KvLayout::kHND;
      c.is_strided = true;
      cases.push_back(c);
      c.problem.logits_soft_cap = 2;
      c.problem.head_dim_vo = 40;
      c.problem.fixed_split_size = 64;
      c.kv_len = {233, 41, 140, 60};
      cases.push_back(c);
    }
  }
  AttentionCase narrow;
  narrow.problem = AttentionOf(DType::kBF16, DType::kE4M3, DType::kBF16, 4, 4, 128, 128, 4);
  narrow.q_len = {2, 2, 2, 2};
  narrow.kv_len = {40, 33, 64, 37};
  cases.push_back(narrow);
  return cases;
}

class CascadeCaseTest : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(CascadeCaseTest, EveryCandidateMatchesTheOracle) {
  const AttentionCase& c = GetParam();
  for (const auto& [candidate, device] : CandidatesOnDevices<BatchPrefillOp>(c.problem)) {
    SCOPED_TRACE(CaseText(candidate, c));
    const Cascade cascade(c, 3, 2, 91);
    Workspace workspace(device);
    RunCascade(c, cascade, workspace, candidate);
    ExpectMatches(c, cascade.in, AttentionOracle(c, cascade.in));
  }
}

INSTANTIATE_TEST_SUITE_P(Shared, CascadeCaseTest, ::testing::ValuesIn(CascadeCases()));

TEST(Cascade, OneLevelIsAPrefill) {
  const AttentionCase c = CascadeCases()[7];
  const AttentionInputs in(c, 92);
  const AttentionInputs expected(c, 92);
  Workspace workspace;
  MultiLevelCascadeAttention attention(workspace);
  const std::vector<CascadeLevel> levels{{in.qo_indptr_view(), in.pages()}};
  attention.Plan(c.problem, levels);
  attention.Run(in.q, in.cache(), in.out, in.lse);
  RunPrefill(c, expected, workspace);
  EXPECT_EQ(in.out.bytes(), expected.out.bytes());
  EXPECT_EQ(in.lse.bytes(), expected.lse.bytes());
}

TEST(Cascade, LevelsWithoutKeysAreNeutral) {
  const AttentionCase c = CascadeCases()[0];
  Cascade cascade(c, 3, 2, 93);
  // One group without pages in the middle, and a last level without any: nothing is seen there.
  cascade.levels.resize(4);
  cascade.levels[3].Add(4, nullptr, 0, 0);
  for (LevelTables& level : cascade.levels) ASSERT_EQ(level.qo_indptr.back(), 4);
  Workspace workspace;
  RunCascade(c, cascade, workspace);
  ExpectMatches(c, cascade.in, AttentionOracle(c, cascade.in));
  cascade.levels.assign(2, cascade.levels[3]);
  RunCascade(c, cascade, workspace);
  for (double x : cascade.in.out.Values()) EXPECT_EQ(x, 0.0);
  for (double x : cascade.in.lse.Values()) EXPECT_EQ(x, -kInf);
}

TEST(Cascade, LseIsOptionalAndWorkspacesMayBeBorrowed) {
  const AttentionCase c = CascadeCases()[1];
  const Cascade cascade(c, 3, 2, 94);
  Workspace own;
  RunCascade(c, cascade, own);
  const std::vector<double> expected = cascade.in.out.Values();
  const size_t bytes = MultiLevelCascadeAttention::WorkspaceBytes(c.problem, 4, 18);
  bool was_refused = false;
  for (size_t size : {bytes, bytes * 3 / 4, size_t{1024}}) {
    std::vector<char> memory(size + 256);
    char* aligned = memory.data() + (256 - reinterpret_cast<uintptr_t>(memory.data()) % 256);
    Workspace workspace = Workspace::Borrow(aligned, size);
    MultiLevelCascadeAttention attention(workspace);
    try {
      attention.Plan(c.problem, cascade.views());
      attention.Run(cascade.in.q, cascade.in.cache(), cascade.in.out);
      EXPECT_EQ(cascade.in.out.Values(), expected) << size;
    } catch (const Error& error) {
      was_refused = true;
      EXPECT_LT(size, bytes);
      EXPECT_THAT(error.what(), HasSubstr("bytes are needed"));
    }
  }
  EXPECT_TRUE(was_refused);
}

TEST(Cascade, PlansMayShareAWorkspaceThatGrows) {
  const AttentionCase c = CascadeCases()[1];
  const Cascade cascade(c, 3, 2, 95);
  Workspace workspace;
  MultiLevelCascadeAttention attention(workspace);
  attention.Plan(c.problem, cascade.views());
  const size_t before = workspace.capacity_bytes();
  workspace.Reserve(before * 4);
  attention.Run(cascade.in.q, cascade.in.cache(), cascade.in.out, cascade.in.lse);
  ExpectMatches(c, cascade.in, AttentionOracle(c, cascade.in));
}

TEST(Cascade, ErrorsNameArgumentValueAndWhatIsAccepted) {
  const AttentionCase c = CascadeCases()[1];
  Cascade cascade(c, 3, 2, 96);
  Workspace workspace;
  MultiLevelCascadeAttention attention(workspace);
  EXPECT_THAT([&] { attention.Run(cascade.in.q, cascade.in.cache(), cascade.in.out); },
              ThrowsMessage<Error>(HasSubstr("before a successful Plan()")));
  const auto plan = [&](auto change) {
    return [&, change] {
      AttentionProblem p = c.problem;
      change(p);
      attention.Plan(p, cascade.views());
    };
  };
  EXPECT_THAT(plan([](auto& p) { p.window_left = 5; }),
              ThrowsMessage<Error>("window_left: is 5, accepted in a cascade: -1"));
  EXPECT_THAT(plan([](auto& p) { p.mask = MaskMode::kCustom; }),
              ThrowsMessage<Error>("mask: is custom, accepted in a cascade: none, causal"));
  EXPECT_THAT(plan([](auto& p) { p.pos_encoding = PositionEncoding::kAlibi; }),
              ThrowsMessage<Error>("pos_encoding: is alibi, accepted in a cascade: none"));
  EXPECT_THAT(plan([](auto& p) { p.has_sinks = true; }),
              ThrowsMessage<Error>("has_sinks: is true, accepted in a cascade: false"));
  EXPECT_THAT(plan([](auto& p) { p.dtype_out = DType::kE4M3; }),
              ThrowsMessage<Error>("dtype_out: is e4m3, accepted in a cascade: f32, f16, bf16"));
  EXPECT_THAT([&] { attention.Plan(c.problem, {}); },
              ThrowsMessage<Error>("levels: is empty, expected 1 or more"));
  cascade.levels[1].qo_indptr.back() -= 1;
  EXPECT_THAT(plan([](auto&) {}), ThrowsMessage<Error>("levels[1].qo_indptr: has 17 query tokens, "
                                                       "levels[0] has 18"));
}

}  // namespace
}  // namespace flashinfer::test
