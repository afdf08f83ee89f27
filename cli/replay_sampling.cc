// SPDX-License-Identifier: Apache-2.0
// How dumped calls of sampling and top-k selection are made again.
#include "replay_ops.h"

#include "flashinfer/flashinfer.h"

namespace flashinfer::cli {
namespace {

using Call = std::shared_ptr<const DumpedCall>;

void ReplaySoftmax(const Call& c, ReplayObjects&) {
  Softmax(c->Tensor("logits"), c->Tensor("probs"), c->Rows<float>("temperature"));
}

SamplingOptions SamplingOptionsOf(const DumpedCall& c) {
  return {.temperature = c.Rows<float>("temperature"),
          .top_k = c.Rows<int32_t>("top_k"),
          .top_p = c.Rows<float>("top_p"),
          .min_p = c.Rows<float>("min_p"),
          .filter_order =
              c.Text("filter_order") == "joint" ? FilterOrder::kJoint : FilterOrder::kTopKFirst,
          .seed = c.Rows<int64_t>("seed"),
          .offset = c.Rows<int64_t>("offset"),
          .indices = c.Tensor("indices")};
}

void ReplaySampleFromLogits(const Call& c, ReplayObjects&) {
  SampleFromLogits(c->Tensor("logits"), c->Tensor("tokens"), SamplingOptionsOf(*c),
                   c->Tensor("valid"));
}

void ReplaySampleFromProbs(const Call& c, ReplayObjects&) {
  SampleFromProbs(c->Tensor("probs"), c->Tensor("tokens"), SamplingOptionsOf(*c),
                  c->Tensor("valid"));
}

void ReplayArgMax(const Call& c, ReplayObjects&) {
  ArgMax(c->Tensor("logits"), c->Tensor("tokens"), c->Tensor("valid"));
}

void ReplayTopKRenorm(const Call& c, ReplayObjects&) {
  TopKRenormProbs(c->Tensor("probs"), c->Tensor("out"), c->Rows<int32_t>("top_k"));
}

void ReplayTopPRenorm(const Call& c, ReplayObjects&) {
  TopPRenormProbs(c->Tensor("probs"), c->Tensor("out"), c->Rows<float>("top_p"));
}

void ReplayTopKMask(const Call& c, ReplayObjects&) {
  TopKMaskLogits(c->Tensor("logits"), c->Tensor("out"), c->Rows<int32_t>("top_k"));
}

TopKOptions TopKOptionsOf(const DumpedCall& c) {
  return {.sorted = c.Bool("sorted"),
          .tie_break = c.Bool("highest_index") ? TieBreak::kHighestIndex : TieBreak::kLowestIndex,
          .row_starts = c.Tensor("row_starts"),
          .lengths = c.Tensor("lengths")};
}

void ReplayTopK(const Call& c, ReplayObjects&) {
  TopK(c->Tensor("input"), c->Tensor("values"), c->Tensor("indices"), TopKOptionsOf(*c));
}

void ReplayTopKPageTable(const Call& c, ReplayObjects&) {
  TopKPageTableTransform(c->Tensor("input"),
                         {c->Tensor("page_table"), c->Tensor("row_to_request"),
                          static_cast<int32_t>(c->Int("page_size"))},
                         c->Tensor("out"), TopKOptionsOf(*c));
}

void ReplayTopKRagged(const Call& c, ReplayObjects&) {
  TopKRaggedTransform(c->Tensor("input"), c->Tensor("offsets"), c->Tensor("out"),
                      TopKOptionsOf(*c));
}

void ReplayChainSpeculative(const Call& c, ReplayObjects&) {
  ChainSpeculativeSampling(
      c->Tensor("draft_probs"), c->Tensor("draft_tokens"), c->Tensor("target_probs"),
      {c->Tensor("tokens"), c->Tensor("num_accepted"), c->Tensor("num_emitted")},
      {.seed = c->Rows<int64_t>("seed"), .offset = c->Rows<int64_t>("offset")});
}

constexpr ReplayRow kRows[] = {
    {"argmax", ReplayArgMax},
    {"chain_speculative_sampling", ReplayChainSpeculative},
    {"sample_from_logits", ReplaySampleFromLogits},
    {"sample_from_probs", ReplaySampleFromProbs},
    {"softmax", ReplaySoftmax},
    {"top_k", ReplayTopK},
    {"top_k_mask_logits", ReplayTopKMask},
    {"top_k_page_table_transform", ReplayTopKPageTable},
    {"top_k_ragged_transform", ReplayTopKRagged},
    {"top_k_renorm_probs", ReplayTopKRenorm},
    {"top_p_renorm_probs", ReplayTopPRenorm},
};

}  // namespace

std::span<const ReplayRow> SamplingReplayRows() { return kRows; }

}  // namespace flashinfer::cli
