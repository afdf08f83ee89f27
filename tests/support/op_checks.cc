// SPDX-License-Identifier: Apache-2.0
// The table of checks.
#include "support/op_checks.h"

#include <algorithm>

#include "core/text.h"
#include "ops/batch_decode.h"
#include "ops/batch_prefill.h"
#include "ops/chain_speculative.h"
#include "ops/gemm.h"
#include "ops/grouped_gemm.h"
#include "ops/linear.h"
#include "ops/merge_state.h"
#include "ops/page_copy.h"
#include "ops/page_positions.h"
#include "ops/sampling.h"
#include "ops/segment_gemm.h"
#include "ops/token_filter.h"
#include "ops/topk.h"
#include "support/cases/attention.h"
#include "support/checks/activation.h"
#include "support/checks/attention.h"
#include "support/checks/chain_speculative.h"
#include "support/checks/gather_rows.h"
#include "support/checks/gemm.h"
#include "support/checks/grouped_gemm.h"
#include "support/checks/linear.h"
#include "support/checks/merge_state.h"
#include "support/checks/merge_states.h"
#include "support/checks/mla.h"
#include "support/checks/norm.h"
#include "support/checks/packbits.h"
#include "support/checks/page_copy.h"
#include "support/checks/page_positions.h"
#include "support/checks/quantize.h"
#include "support/checks/quantize_blocks.h"
#include "support/checks/rope.h"
#include "support/checks/sampling.h"
#include "support/checks/segment_gemm.h"
#include "support/checks/softmax.h"
#include "support/checks/swizzle_scales.h"
#include "support/checks/token_filter.h"
#include "support/checks/topk.h"

namespace flashinfer::test {
namespace {

template <class Case>
std::vector<Case> Joined(std::vector<Case> cases, const std::vector<Case>& more) {
  cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}
std::vector<AttentionCase> AllDecodeCases() { return Joined(DecodeCases(), DecodeFeatureCases()); }
std::vector<AttentionCase> AllPrefillCases() {
  return Joined(PrefillCases(), PrefillFeatureCases());
}

/// `kCases()` gives the list; each of `kChecks` takes a case of it.
template <class Op, auto kCases, auto... kChecks>
constexpr OpCheck Row() {
  return {Op::kName, [](const CaseFilter& filter, CaseRun& run) {
            auto cases = kCases();
            std::erase_if(cases,
                          [&](const auto& c) { return !filter.Takes(CaseText(Op::kName, c)); });
            const auto step = static_cast<size_t>(filter.Step(static_cast<int64_t>(cases.size())));
            int64_t count = 0;
            for (size_t i = 0; i < cases.size(); i += step) {
              (kChecks(cases[i], run), ...);
              ++count;
            }
            return count;
          }};
}

constexpr OpCheck kTable[] = {
    Row<PageAppendOp, PageCopyCases, CheckPageAppend>(),
    Row<PageGatherOp, PageCopyCases, CheckPageGather>(),
    Row<BatchIndicesPositionsOp, BatchIndicesPositionsCases, CheckBatchIndicesPositions>(),
    Row<SeqLensOp, SeqLensCases, CheckSeqLens>(),
    Row<MergeStateOp, MergeStateCases, CheckMergeState>(),
    Row<MergeStatesOp, MergeStatesCases, CheckMergeStates, CheckVariableLengthMergeStates>(),
    Row<BatchDecodeOp, AllDecodeCases, CheckBatchDecode>(),
    Row<BatchPrefillOp, AllPrefillCases, CheckBatchPrefill>(),
    Row<MlaOp, MlaCases, CheckMla>(),
    Row<GemmOp, GemmCases, CheckGemm>(),
    Row<SegmentGemmOp, SegmentGemmCases, CheckSegmentGemm>(),
    Row<GroupedGemmOp, GroupedGemmCases, CheckGroupedGemm>(),
    Row<LinearOp, LinearCases, CheckLinear>(),
    Row<GatherRowsOp, GatherRowsCases, CheckGatherRows>(),
    Row<NormOp, NormCases, CheckNorm>(),
    Row<RopeOp, RopeCases, CheckRope>(),
    Row<ActivationOp, ActivationCases, CheckActivation>(),
    Row<QuantizeOp, QuantizeCases, CheckQuantize>(),
    Row<QuantizeBlocksOp, QuantizeBlocksCases, CheckQuantizeBlocks>(),
    Row<SwizzleScalesOp, SwizzleScalesCases, CheckSwizzleScales>(),
    Row<PackBitsOp, PackBitsCases, CheckPackBits>(),
    Row<SoftmaxOp, VocabularyCases, CheckSoftmax>(),
    Row<SamplingOp, SamplingCases, CheckSampling>(),
    Row<ArgMaxOp, VocabularyCases, CheckArgMax>(),
    Row<TokenFilterOp, TokenFilterCases, CheckTokenFilter>(),
    Row<TopKOp, TopKCases, CheckTopK>(),
    Row<ChainSpeculativeOp, ChainSpeculativeCases, CheckChainSpeculative>(),
};

}  // namespace

bool CaseFilter::Takes(std::string_view text) const {
  const std::vector<std::string_view> present = SplitWords(text);
  return std::all_of(words.begin(), words.end(), [&](const std::string& word) {
    return std::find(present.begin(), present.end(), word) != present.end();
  });
}

int64_t CaseFilter::Step(int64_t num_cases) const {
  return max_cases == 0 ? 1 : std::max<int64_t>(1, (num_cases + max_cases - 1) / max_cases);
}

std::span<const OpCheck> OpChecks() { return kTable; }

}  // namespace flashinfer::test
