// SPDX-License-Identifier: Apache-2.0
// How dumped calls of attention, its merges, and its pages are made again.
#include "replay_ops.h"

#include <fmt/format.h>

#include "flashinfer/flashinfer.h"

namespace flashinfer::cli {
namespace {

using Call = std::shared_ptr<const DumpedCall>;

void ReplayMergeState(const Call& c, ReplayObjects&) {
  MergeState(c->Tensor("v_a"), c->Tensor("s_a"), c->Tensor("v_b"), c->Tensor("s_b"),
             c->Tensor("v_merged"), c->Tensor("s_merged"));
}

void ReplayMergeStateInPlace(const Call& c, ReplayObjects&) {
  MergeStateInPlace(c->Tensor("v"), c->Tensor("s"), c->Tensor("v_other"), c->Tensor("s_other"),
                    c->Tensor("mask"));
}

void ReplayMergeStates(const Call& c, ReplayObjects&) {
  MergeStates(c->Tensor("v"), c->Tensor("s"), c->Tensor("v_merged"), c->Tensor("s_merged"));
}

void ReplayVariableLengthMergeStates(const Call& c, ReplayObjects&) {
  VariableLengthMergeStates(c->Tensor("v"), c->Tensor("s"), c->Tensor("indptr"),
                            c->Tensor("v_merged"), c->Tensor("s_merged"));
}

PagedKvCache CacheOf(const DumpedCall& c) {
  return {c.Tensor("cache.k"), c.Tensor("cache.v"),
          c.Text("cache.layout") == "HND" ? KvLayout::kHND : KvLayout::kNHD};
}

PageTable PagesOf(const DumpedCall& c) {
  return {c.Tensor("indptr"), c.Tensor("indices"), c.Tensor("last_page_len")};
}

PageCopyOptions PageCopyOptionsOf(const DumpedCall& c) {
  return {.k_scale = c.Float("k_scale"), .v_scale = c.Float("v_scale")};
}

void ReplayAppendPagedKvCache(const Call& c, ReplayObjects&) {
  AppendPagedKvCache(c->Tensor("k"), c->Tensor("v"), c->Tensor("batch_indices"),
                     c->Tensor("positions"), CacheOf(*c), PagesOf(*c), PageCopyOptionsOf(*c));
}

void ReplayGatherPagedKvCache(const Call& c, ReplayObjects&) {
  GatherPagedKvCache(CacheOf(*c), PagesOf(*c), c->Tensor("batch_indices"), c->Tensor("positions"),
                     c->Tensor("k"), c->Tensor("v"), PageCopyOptionsOf(*c));
}

void ReplayAppendPagedMlaKvCache(const Call& c, ReplayObjects&) {
  AppendPagedMlaKvCache(c->Tensor("ckv"), c->Tensor("kpe"), c->Tensor("batch_indices"),
                        c->Tensor("positions"), c->Tensor("ckv_cache"), c->Tensor("kpe_cache"),
                        PagesOf(*c), PageCopyOptionsOf(*c));
}

void ReplayGatherPagedMlaKvCache(const Call& c, ReplayObjects&) {
  GatherPagedMlaKvCache(c->Tensor("ckv_cache"), c->Tensor("kpe_cache"), PagesOf(*c),
                        c->Tensor("batch_indices"), c->Tensor("positions"), c->Tensor("ckv"),
                        c->Tensor("kpe"), PageCopyOptionsOf(*c));
}

void ReplayGetBatchIndicesPositions(const Call& c, ReplayObjects&) {
  GetBatchIndicesPositions(c->Tensor("append_indptr"), c->Tensor("seq_lens"),
                           c->Tensor("batch_indices"), c->Tensor("positions"));
}

void ReplayGetSeqLens(const Call& c, ReplayObjects&) {
  GetSeqLens(c->Tensor("indptr"), c->Tensor("last_page_len"),
             static_cast<int32_t>(c->Int("page_size")), c->Tensor("seq_lens"));
}

/// A plan/run object with a workspace of its own.
template <class T>
struct Planned {
  Workspace workspace;
  T object{workspace};
};

/// Plans the object of an earlier plan anew, or a fresh one.
template <class T>
T& ObjectToPlan(const Call& c, ReplayObjects& objects) {
  auto planned = std::make_shared<Planned<T>>();
  T& object = planned->object;
  objects.Put(c, std::move(planned));
  return object;
}

template <class Enum>
Enum ParseEnum(const DumpedCall& c, std::string_view text, std::initializer_list<Enum> values) {
  for (Enum value : values) {
    if (Name(value) == text) return value;
  }
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("{}: problem: '{}' is no known value", c.name(), text));
}

AttentionProblem AttentionProblemOf(const DumpedCall& c) {
  const Fields fields = c.ProblemFields("problem");
  const auto text = [&](std::string_view name) -> const std::string& {
    return fields.find(name)->second;
  };
  const auto number = [&](std::string_view name) { return std::stof(text(name)); };
  const auto integer = [&](std::string_view name) { return std::stoi(text(name)); };
  return {.dtype_q = ParseDType(text("dtype_q")),
          .dtype_kv = ParseDType(text("dtype_kv")),
          .dtype_out = ParseDType(text("dtype_out")),
          .num_qo_heads = integer("num_qo_heads"),
          .num_kv_heads = integer("num_kv_heads"),
          .head_dim_qk = integer("head_dim_qk"),
          .head_dim_vo = integer("head_dim_vo"),
          .page_size = integer("page_size"),
          .mask = ParseEnum(
              c, text("mask"),
              {MaskMode::kNone, MaskMode::kCausal, MaskMode::kCustom, MaskMode::kMultiItem}),
          .window_left = integer("window_left"),
          .sm_scale = number("sm_scale"),
          .logits_soft_cap = number("logits_soft_cap"),
          .pos_encoding = ParseEnum(
              c, text("pos_encoding"),
              {PositionEncoding::kNone, PositionEncoding::kRopeLlama, PositionEncoding::kAlibi}),
          .rope_scale = number("rope_scale"),
          .rope_theta = number("rope_theta"),
          .has_bias = integer("has_bias") != 0,
          .has_sinks = integer("has_sinks") != 0,
          .fixed_split_size = integer("fixed_split_size"),
          .arch = integer("arch")};
}

AttentionMask AttentionMaskOf(const DumpedCall& c) {
  return {c.Tensor("mask.custom"), c.Tensor("mask.prefix_len"),
          c.Tensor("mask.token_pos_in_items")};
}

AttentionExtras AttentionExtrasOf(const DumpedCall& c) {
  return {.q_scale = c.Float("q_scale"),
          .k_scale = c.Float("k_scale"),
          .v_scale = c.Float("v_scale"),
          .q_scales = c.Tensor("q_scales"),
          .k_scales = c.Tensor("k_scales"),
          .v_scales = c.Tensor("v_scales"),
          .sinks = c.Tensor("sinks"),
          .alibi_slopes = c.Tensor("alibi_slopes"),
          .bias = c.Tensor("bias")};
}

MlaProblem MlaProblemOf(const DumpedCall& c) {
  const Fields fields = c.ProblemFields("problem");
  const auto text = [&](std::string_view name) -> const std::string& {
    return fields.find(name)->second;
  };
  const auto integer = [&](std::string_view name) { return std::stoi(text(name)); };
  return {.dtype_q = ParseDType(text("dtype_q")),
          .dtype_kv = ParseDType(text("dtype_kv")),
          .dtype_out = ParseDType(text("dtype_out")),
          .num_heads = integer("num_heads"),
          .head_dim_ckv = integer("head_dim_ckv"),
          .head_dim_kpe = integer("head_dim_kpe"),
          .page_size = integer("page_size"),
          .causal = integer("causal") != 0,
          .window_left = integer("window_left"),
          .sm_scale = std::stof(text("sm_scale")),
          .logits_soft_cap = std::stof(text("logits_soft_cap")),
          .fixed_split_size = integer("fixed_split_size"),
          .arch = integer("arch")};
}

void ReplayMlaPlan(const Call& c, ReplayObjects& objects) {
  ObjectToPlan<BatchMla>(c, objects)
      .Plan(MlaProblemOf(*c), c->Tensor("qo_indptr"),
            {c->Tensor("indptr"), c->Tensor("indices"), c->Tensor("kv_len")});
}

void ReplayMlaRun(const Call& c, ReplayObjects& objects) {
  objects.Get<Planned<BatchMla>>(*c, "object")
      .object.Run(c->Tensor("q_nope"), c->Tensor("q_pe"),
                  {.ckv = c->Tensor("cache.ckv"),
                   .kpe = c->Tensor("cache.kpe"),
                   .ckv_scale = c->Float("cache.ckv_scale"),
                   .kpe_scale = c->Float("cache.kpe_scale"),
                   .ckv_scales = c->Tensor("cache.ckv_scales")},
                  c->Tensor("out"), c->Tensor("lse"));
}

void ReplayCascadePlan(const Call& c, ReplayObjects& objects) {
  std::vector<CascadeLevel> levels(static_cast<size_t>(c->Int("num_levels")));
  for (size_t i = 0; i < levels.size(); ++i) {
    const auto tensor = [&](const char* field) {
      return c->Tensor(fmt::format("levels[{}].{}", i, field));
    };
    levels[i] = {tensor("qo_indptr"),
                 {tensor("indptr"), tensor("indices"), tensor("last_page_len")}};
  }
  ObjectToPlan<MultiLevelCascadeAttention>(c, objects).Plan(AttentionProblemOf(*c), levels);
}

void ReplayDecodePlan(const Call& c, ReplayObjects& objects) {
  ObjectToPlan<BatchDecode>(c, objects).Plan(AttentionProblemOf(*c), PagesOf(*c));
}

void ReplayPrefillPlan(const Call& c, ReplayObjects& objects) {
  ObjectToPlan<BatchPrefill>(c, objects)
      .Plan(AttentionProblemOf(*c), c->Tensor("qo_indptr"), PagesOf(*c), AttentionMaskOf(*c));
}

void ReplayRaggedPlan(const Call& c, ReplayObjects& objects) {
  ObjectToPlan<BatchPrefillRagged>(c, objects)
      .Plan(AttentionProblemOf(*c), c->Tensor("qo_indptr"), c->Tensor("kv_indptr"),
            AttentionMaskOf(*c));
}

template <class T>
void ReplayAttentionRun(const Call& c, ReplayObjects& objects) {
  objects.Get<Planned<T>>(*c, "object")
      .object.Run(c->Tensor("q"), CacheOf(*c), c->Tensor("out"), c->Tensor("lse"),
                  AttentionExtrasOf(*c));
}

void ReplayRaggedRun(const Call& c, ReplayObjects& objects) {
  const PagedKvCache one_page = CacheOf(*c);
  objects.Get<Planned<BatchPrefillRagged>>(*c, "object")
      .object.Run(c->Tensor("q"), {one_page.k[0], one_page.v[0], one_page.layout}, c->Tensor("out"),
                  c->Tensor("lse"), AttentionExtrasOf(*c));
}

template <auto kAttention>
void ReplaySingle(const Call& c, ReplayObjects&) {
  const PagedKvCache kv = CacheOf(*c);
  Workspace workspace;
  kAttention(AttentionProblemOf(*c),
             {.q = c->Tensor("q"),
              .kv = {kv.k, kv.v, kv.layout},
              .out = c->Tensor("out"),
              .lse = c->Tensor("lse"),
              .mask = AttentionMaskOf(*c),
              .extras = AttentionExtrasOf(*c)},
             workspace, Backend(), Stream());
}

constexpr ReplayRow kRows[] = {
    {"append_paged_kv_cache", ReplayAppendPagedKvCache},
    {"append_paged_mla_kv_cache", ReplayAppendPagedMlaKvCache},
    {"batch_decode.plan", ReplayDecodePlan},
    {"batch_decode.run", ReplayAttentionRun<BatchDecode>},
    {"batch_mla.plan", ReplayMlaPlan},
    {"batch_mla.run", ReplayMlaRun},
    {"batch_prefill.plan", ReplayPrefillPlan},
    {"batch_prefill.run", ReplayAttentionRun<BatchPrefill>},
    {"batch_prefill_ragged.plan", ReplayRaggedPlan},
    {"batch_prefill_ragged.run", ReplayRaggedRun},
    {"cascade.plan", ReplayCascadePlan},
    {"cascade.run", ReplayAttentionRun<MultiLevelCascadeAttention>},
    {"gather_paged_kv_cache", ReplayGatherPagedKvCache},
    {"gather_paged_mla_kv_cache", ReplayGatherPagedMlaKvCache},
    {"get_batch_indices_positions", ReplayGetBatchIndicesPositions},
    {"get_seq_lens", ReplayGetSeqLens},
    {"merge_state", ReplayMergeState},
    {"merge_state_in_place", ReplayMergeStateInPlace},
    {"merge_states", ReplayMergeStates},
    {"single_decode", ReplaySingle<SingleDecode>},
    {"single_prefill", ReplaySingle<SinglePrefill>},
    {"variable_length_merge_states", ReplayVariableLengthMergeStates},
};

}  // namespace

std::span<const ReplayRow> AttentionReplayRows() { return kRows; }

}  // namespace flashinfer::cli
