// SPDX-License-Identifier: Apache-2.0
// The table of operators that can be replayed: arguments from the dump to the public function.
#include "replay_ops.h"

#include <fmt/format.h>

#include "flashinfer/flashinfer.h"

namespace flashinfer::cli {
namespace {

using Call = std::shared_ptr<const DumpedCall>;

template <class Options>
Options FusedOutputOptions(const DumpedCall& c) {
  Options options;
  options.out_scale = c.Float("out_scale");
  options.out_scale_tensor = c.Tensor("out_scale_tensor");
  return options;
}

NormOptions NormOptionsOf(const DumpedCall& c) {
  NormOptions options = FusedOutputOptions<NormOptions>(c);
  options.eps = c.Float("eps");
  return options;
}

template <auto kNorm>
void ReplayNorm(const Call& c, ReplayObjects&) {
  kNorm(c->Tensor("x"), c->Tensor("weight"), c->Tensor("out"), NormOptionsOf(*c), Stream());
}

template <auto kNorm>
void ReplayAddNorm(const Call& c, ReplayObjects&) {
  kNorm(c->Tensor("x"), c->Tensor("residual"), c->Tensor("weight"), c->Tensor("out"),
        NormOptionsOf(*c), Stream());
}

void ReplayLayerNorm(const Call& c, ReplayObjects&) {
  LayerNorm(c->Tensor("x"), c->Tensor("weight"), c->Tensor("bias"), c->Tensor("out"),
            NormOptionsOf(*c));
}

template <auto kActivation>
void ReplayActivation(const Call& c, ReplayObjects&) {
  kActivation(c->Tensor("x"), c->Tensor("out"), FusedOutputOptions<ActivationOptions>(*c),
              Stream());
}

void ReplayRope(const Call& c, ReplayObjects&) {
  ApplyRope(c->Tensor("q"), c->Tensor("k"), c->Tensor("pos_ids"), c->Tensor("q_out"),
            c->Tensor("k_out"),
            {.style = c->Bool("interleaved") ? RopeStyle::kInterleaved : RopeStyle::kNeox,
             .rotary_dim = c->Int("rotary_dim"),
             .rope_theta = c->Float("rope_theta"),
             .rope_scale = c->Float("rope_scale"),
             .frequency_factors = c->Tensor("frequency_factors")});
}

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

template <class Problem>
Problem AttentionProblemOf(const DumpedCall& c) {
  const Fields fields = c.ProblemFields("problem");
  const auto number = [&](std::string_view name) { return std::stof(fields.find(name)->second); };
  const auto integer = [&](std::string_view name) { return std::stoi(fields.find(name)->second); };
  const auto dtype = [&](std::string_view name) { return ParseDType(fields.find(name)->second); };
  Problem p;
  p.dtype_q = dtype("dtype_q");
  p.dtype_kv = dtype("dtype_kv");
  p.dtype_out = dtype("dtype_out");
  p.num_qo_heads = integer("num_qo_heads");
  p.num_kv_heads = integer("num_kv_heads");
  p.head_dim_qk = integer("head_dim_qk");
  p.head_dim_vo = integer("head_dim_vo");
  p.page_size = integer("page_size");
  if constexpr (requires { p.causal; }) p.causal = integer("causal") != 0;
  p.sm_scale = number("sm_scale");
  p.logits_soft_cap = number("logits_soft_cap");
  p.window_left = integer("window_left");
  p.fixed_split_size = integer("fixed_split_size");
  return p;
}

void ReplayDecodePlan(const Call& c, ReplayObjects& objects) {
  ObjectToPlan<BatchDecode>(c, objects)
      .Plan(AttentionProblemOf<BatchDecodeProblem>(*c), PagesOf(*c));
}

void ReplayPrefillPlan(const Call& c, ReplayObjects& objects) {
  ObjectToPlan<BatchPrefill>(c, objects)
      .Plan(AttentionProblemOf<BatchPrefillProblem>(*c), c->Tensor("qo_indptr"), PagesOf(*c));
}

template <class T>
void ReplayAttentionRun(const Call& c, ReplayObjects& objects) {
  objects.Get<Planned<T>>(*c, "object")
      .object.Run(c->Tensor("q"), CacheOf(*c), c->Tensor("out"), c->Tensor("lse"));
}

WeightFormat FormatOf(const DumpedCall& c, const std::string& argument) {
  for (int i = 0; i <= static_cast<int>(WeightFormat::kMXFP4); ++i) {
    const auto format = static_cast<WeightFormat>(i);
    if (Name(format) == c.Text(argument)) return format;
  }
  throw Error(ErrorKind::kInvalidArgument, fmt::format("{}: {}: '{}' is no weight format", c.name(),
                                                       argument, c.Text(argument)));
}

void ReplayPackWeight(const Call& c, ReplayObjects& objects) {
  std::vector<WeightView> sources;
  for (int64_t i = 0; i < c->Int("num_sources"); ++i) {
    const std::string name = fmt::format("sources.{}", i);
    const TensorView bytes = c->Tensor(name);
    const WeightFormat format = FormatOf(*c, name + ".format");
    sources.push_back({bytes.data(), format, bytes.shape(0),
                       bytes.shape(1) / BlockBytes(format) * BlockSize(format)});
  }
  objects.Put(c, std::make_shared<PackedWeight>(sources));
}

void ReplayGatherRows(const Call& c, ReplayObjects& objects) {
  objects.Get<PackedWeight>(*c, "object").GatherRows(c->Tensor("ids"), c->Tensor("out"));
}

void ReplayLinear(const Call& c, ReplayObjects& objects) {
  Linear(c->Tensor("x"), objects.Get<PackedWeight>(*c, "weight"), c->Tensor("out"),
         {.bias = c->Tensor("bias"), .residual = c->Tensor("residual")});
}

void ReplayGemm(const Call& c, ReplayObjects&) {
  Gemm(c->Tensor("a"), c->Tensor("b"), c->Tensor("out"));
}

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
          .offset = c.Rows<int64_t>("offset")};
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

constexpr ReplayRow kTable[] = {
    {"append_paged_kv_cache", ReplayAppendPagedKvCache},
    {"append_paged_mla_kv_cache", ReplayAppendPagedMlaKvCache},
    {"argmax", ReplayArgMax},
    {"batch_decode.plan", ReplayDecodePlan},
    {"batch_decode.run", ReplayAttentionRun<BatchDecode>},
    {"batch_prefill.plan", ReplayPrefillPlan},
    {"batch_prefill.run", ReplayAttentionRun<BatchPrefill>},
    {"fused_add_rmsnorm", ReplayAddNorm<FusedAddRmsNorm>},
    {"gather_paged_kv_cache", ReplayGatherPagedKvCache},
    {"gather_paged_mla_kv_cache", ReplayGatherPagedMlaKvCache},
    {"gather_rows", ReplayGatherRows},
    {"gelu_and_mul", ReplayActivation<GeluAndMul>},
    {"gelu_tanh_and_mul", ReplayActivation<GeluTanhAndMul>},
    {"gemm", ReplayGemm},
    {"gemma_fused_add_rmsnorm", ReplayAddNorm<GemmaFusedAddRmsNorm>},
    {"gemma_rmsnorm", ReplayNorm<GemmaRmsNorm>},
    {"get_batch_indices_positions", ReplayGetBatchIndicesPositions},
    {"get_seq_lens", ReplayGetSeqLens},
    {"layernorm", ReplayLayerNorm},
    {"linear", ReplayLinear},
    {"merge_state", ReplayMergeState},
    {"merge_state_in_place", ReplayMergeStateInPlace},
    {"merge_states", ReplayMergeStates},
    {"pack_weight", ReplayPackWeight},
    {"rmsnorm", ReplayNorm<RmsNorm>},
    {"rope", ReplayRope},
    {"sample_from_logits", ReplaySampleFromLogits},
    {"sample_from_probs", ReplaySampleFromProbs},
    {"silu_and_mul", ReplayActivation<SiluAndMul>},
    {"softmax", ReplaySoftmax},
    {"variable_length_merge_states", ReplayVariableLengthMergeStates},
};

}  // namespace

void* ReplayObjects::Find(const DumpedCall& call, std::string_view argument) const {
  const auto at = objects_.find(call.Object(argument));
  if (at != objects_.end()) return at->second.object.get();
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("{}: {}: the call that made it was not replayed", call.name(), argument));
}

std::span<const ReplayRow> ReplayTable() { return kTable; }

}  // namespace flashinfer::cli
