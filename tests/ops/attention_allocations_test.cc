// SPDX-License-Identifier: Apache-2.0
// Run() of attention, and what goes with it at each step, allocates nothing and reads no
// environment.
#include <gtest/gtest.h>

#include "flashinfer/attention/cascade.h"
#include "flashinfer/attention/decode.h"
#include "flashinfer/attention/prefill.h"
#include "flashinfer/page.h"
#include "support/call_counters.h"
#include "support/cases/attention.h"
#include "support/cases/mla.h"

namespace flashinfer::test {
namespace {

/// The second of two calls: the first starts the threads.
template <class Call>
void ExpectQuiet(Call&& call) {
  call();
  const CallCounts before = CountedCalls();
  call();
  const CallCounts after = CountedCalls();
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_EQ(after.environment_reads, before.environment_reads);
  EXPECT_EQ(after.kernel_fetches, before.kernel_fetches);
}

TEST(AttentionAllocations, NoneInRun) {
  const AttentionProblem p = AttentionOf(DType::kF32, DType::kF16, DType::kF32, 9, 3, 64, 64, 16);
  const AttentionCase decode_case{p, {1, 1}, {3000, 5}};
  const AttentionCase prefill_case{p, {300, 1}, {300, 2000}};
  const AttentionInputs decode_in(decode_case, 1);
  const AttentionInputs prefill_in(prefill_case, 2);
  const int64_t before = CountedCalls().allocations;
  Workspace workspace;
  BatchDecode decode(workspace);
  BatchPrefill prefill(workspace);
  EXPECT_GT(CountedCalls().allocations, before);  // the counter counts
  decode.Plan(p, decode_in.pages());
  prefill.Plan(p, prefill_in.qo_indptr_view(), prefill_in.pages());
  ExpectQuiet([&] { decode.Run(decode_in.q, decode_in.cache(), decode_in.out, decode_in.lse); });
  ExpectQuiet(
      [&] { prefill.Run(prefill_in.q, prefill_in.cache(), prefill_in.out, prefill_in.lse); });
}

TEST(AttentionAllocations, NoneInRunOfLatentAttention) {
  const MlaCase c{
      MlaOf(DType::kBF16, DType::kBF16, DType::kBF16, 16, 64, 16, 16), {1, 3}, {2000, 7}};
  const MlaInputs in(c, 3);
  const MlaCache cache = in.cache();
  Workspace workspace;
  BatchMla mla(workspace);
  mla.Plan(c.problem, in.qo_indptr_view(), in.pages());
  ExpectQuiet([&] { mla.Run(in.q_nope, in.q_pe, cache, in.out, in.lse); });
}

TEST(AttentionAllocations, NoneInRunOfACascade) {
  const AttentionProblem p = AttentionOf(DType::kF32, DType::kF16, DType::kF32, 9, 3, 64, 64, 16);
  const AttentionCase c{p, {3, 5}, {2000, 70}};
  const AttentionInputs in(c, 4);
  const std::vector<CascadeLevel> levels(2, {in.qo_indptr_view(), in.pages()});
  Workspace workspace;
  MultiLevelCascadeAttention cascade(workspace);
  cascade.Plan(p, levels);
  ExpectQuiet([&] { cascade.Run(in.q, in.cache(), in.out); });
}

TEST(AttentionAllocations, NoneInPageCopiesAndMerges) {
  const AttentionProblem p = AttentionOf(DType::kF16, DType::kF16, DType::kF16, 3, 3, 64, 64, 16);
  const AttentionInputs in({p, {900}, {1000}}, 5);
  HostTensor batch_indices(DType::kI32, {900});
  HostTensor positions(DType::kI32, {900});
  const std::vector<int32_t> seq_lens{1000};
  const TensorView lens(seq_lens.data(), DType::kI32, {1});
  ExpectQuiet([&] {
    GetBatchIndicesPositions(in.qo_indptr_view(), lens, batch_indices, positions);
    GetSeqLens(in.pages().indptr, in.pages().last_page_len, 16, lens);
    AppendPagedKvCache(in.q, in.q, batch_indices, positions, in.cache(), in.pages());
    GatherPagedKvCache(in.cache(), in.pages(), batch_indices, positions, in.out, in.q);
    MergeStateInPlace(in.out, in.lse, in.out, in.lse);
  });
}

}  // namespace
}  // namespace flashinfer::test
