// SPDX-License-Identifier: Apache-2.0
// A call or more of every operator, small, for the tests of dumps.
#include "cli/replay_calls.h"

#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "flashinfer/flashinfer.h"
#include "support/host_tensor.h"

namespace flashinfer::test {
namespace {

std::mt19937_64& Rng() {
  static std::mt19937_64 rng(83);
  return rng;
}

HostTensor Normal(DType dtype, Dims shape) {
  HostTensor tensor(dtype, shape);
  tensor.FillNormal(Rng());
  return tensor;
}

HostTensor Ints(std::initializer_list<double> values) {
  HostTensor tensor(DType::kI32, {static_cast<int64_t>(values.size())});
  tensor.FillWith(values);
  return tensor;
}

void CallNorm() {
  HostTensor x(DType::kBF16, {3, 16}, {20, 1}, 2);
  x.FillNormal(Rng());
  HostTensor residual = Normal(DType::kBF16, {3, 16});
  HostTensor out(DType::kBF16, {3, 16});
  HostTensor narrow(DType::kE4M3, {3, 16});
  const HostTensor weight = Normal(DType::kF32, {16});
  RmsNorm(x, weight, x, {.eps = 1e-5f});
  GemmaRmsNorm(x, weight, narrow, {.out_scale = 0.5f});
  FusedAddRmsNorm(x, residual, weight, out);
  GemmaFusedAddRmsNorm(x, residual, weight, x);
  LayerNorm(x, weight, Normal(DType::kF32, {16}), out);
}

void CallRope() {
  HostTensor q = Normal(DType::kF16, {2, 4, 16});
  HostTensor k = Normal(DType::kF16, {2, 1, 16});
  ApplyRope(q, k, Ints({5, 700}), q, k, {.style = RopeStyle::kInterleaved, .rotary_dim = 8});
  const HostTensor factors = Normal(DType::kF32, {8});
  ApplyRope(q, k, Ints({0, 1}), q, k, {.rope_theta = 5e5f, .frequency_factors = factors});
  ApplyRopeByOffsets(q, k, {Ints({0, 1, 2}), Ints({40, 9000})}, q, k,
                     {.rope_scale = 8.0f, .scaling = RopeScaling::kLlama31});
  ApplyRopeByOffsets(q, k, {Ints({0, 2}), Ints({7})}, q, k,
                     {.rope_scale = 4.0f, .scaling = RopeScaling::kYarn});
  HostTensor q_out(DType::kE4M3, {2, 4, 16});
  HostTensor k_out(DType::kE4M3, {2, 16});
  HostTensor k_nope_out(DType::kE4M3, {2, 32});
  RopeQuantize({.q_rope = q,
                .k_rope = Normal(DType::kF16, {2, 16}),
                .k_nope = Normal(DType::kF16, {2, 32}),
                .q_rope_out = q_out,
                .k_rope_out = k_out,
                .k_nope_out = k_nope_out},
               Ints({3, 1}),
               {.cos_sin_cache = Normal(DType::kF32, {4, 16}), .quant_scale_kv = 0.5f});
}

void CallActivation() {
  const HostTensor x = Normal(DType::kF32, {2, 12});
  HostTensor out(DType::kF32, {2, 6});
  SiluAndMul(x, out);
  GeluAndMul(x, out);
  HostTensor narrow(DType::kE5M2, {2, 6});
  GeluTanhAndMul(x, narrow, {.out_scale = 0.25f});
}

void CallQuantize() {
  const HostTensor x = Normal(DType::kBF16, {3, 64});
  HostTensor q(DType::kI8, {3, 64});
  HostTensor scales(DType::kF32, {3, 2});
  Quantize(x, q, scales, {.power_of_two = true});
  HostTensor back(DType::kF32, {3, 64});
  Dequantize(q, scales, back);
  HostTensor nibbles(DType::kE2M1x2, {3, 32});
  HostTensor block_scales(DType::kE4M3, {32});
  const QuantizeBlocksOptions options{.scale_layout = ScaleLayout::k8x4, .global_scale = 300.0f};
  QuantizeBlocks(x, nibbles, block_scales, options);
  DequantizeBlocks(nibbles, block_scales, back, options);
  SwizzleBlockScales(Normal(DType::kE4M3, {3, 4}), block_scales, ScaleLayout::k8x4);
}

void CallPackBits() {
  HostTensor x(DType::kBool, {11});
  x.FillWith({1, 0, 0, 1, 1, 0, 1, 0, 1, 1, 1});
  HostTensor packed(DType::kU8, {2});
  HostTensor packed_indptr(DType::kI32, {3});
  PackBits(x, packed, BitOrder::kLittle);
  SegmentPackBits(x, {Ints({0, 3, 11}), packed_indptr}, packed);
}

void CallMergeState() {
  HostTensor v_a = Normal(DType::kF32, {2, 3, 8});
  HostTensor s_a = Normal(DType::kF32, {2, 3});
  const HostTensor v_b = Normal(DType::kF32, {2, 3, 8});
  const HostTensor s_b = Normal(DType::kF32, {2, 3});
  MergeState(v_a, s_a, v_b, s_b, v_a, s_a);
  HostTensor mask(DType::kBool, {2});
  mask.FillWith({1, 0});
  MergeStateInPlace(v_a, s_a, v_b, s_b, mask);
  const HostTensor v = Normal(DType::kF32, {4, 3, 8});
  const HostTensor s = Normal(DType::kF32, {4, 3});
  VariableLengthMergeStates(v, s, Ints({0, 1, 4}), v_a, s_a);
  MergeStates(Normal(DType::kF32, {2, 5, 3, 8}), Normal(DType::kF32, {2, 5, 3}), v_a, s_a);
}

/// Two requests of 5 and 2 tokens in pages of 4.
struct Cache {
  HostTensor k = Normal(DType::kF32, {4, 1, 4, 16});
  HostTensor v = Normal(DType::kF32, {4, 1, 4, 8});
  HostTensor indptr = Ints({0, 2, 3});
  HostTensor indices = Ints({3, 0, 2});
  HostTensor last_page_len = Ints({1, 2});
  PagedKvCache cache() const { return {k, v, KvLayout::kHND}; }
  PageTable pages() const { return {indptr, indices, last_page_len}; }
};

void CallAppend() {
  const Cache c;
  AppendPagedKvCache(Normal(DType::kF32, {2, 1, 16}), Normal(DType::kF32, {2, 1, 8}), Ints({0, 1}),
                     Ints({4, 0}), c.cache(), c.pages());
  HostTensor k(DType::kF32, {2, 1, 16});
  HostTensor v(DType::kF32, {2, 1, 8});
  GatherPagedKvCache(c.cache(), c.pages(), Ints({0, -1}), Ints({4, -1}), k, v);
}

void CallLatentPages() {
  const Cache c;
  HostTensor ckv(DType::kE4M3, {4, 4, 16});
  HostTensor kpe(DType::kE4M3, {4, 4, 8});
  ckv.Fill(0);
  kpe.Fill(0);
  AppendPagedMlaKvCache(Normal(DType::kF32, {2, 16}), Normal(DType::kF32, {2, 8}), Ints({0, 1}),
                        Ints({4, 0}), ckv, kpe, c.pages(), {.k_scale = 0.5f});
  HostTensor k(DType::kF32, {1, 16});
  HostTensor v(DType::kF32, {1, 8});
  GatherPagedMlaKvCache(ckv, kpe, c.pages(), Ints({1}), Ints({0}), k, v, {.v_scale = 2});
}

void CallMla() {
  MlaProblem problem;
  problem.dtype_q = problem.dtype_kv = problem.dtype_out = DType::kF32;
  problem.num_heads = 3;
  problem.head_dim_ckv = 16;
  problem.head_dim_kpe = 8;
  problem.page_size = 4;
  problem.causal = true;
  problem.sm_scale = 0.2f;
  Workspace workspace;
  BatchMla mla(workspace);
  const HostTensor indices = Ints({3, 0, 2});
  mla.Plan(problem, Ints({0, 2, 3}), {Ints({0, 2, 3}), indices, Ints({5, 2})});
  HostTensor out(DType::kF32, {3, 3, 16});
  HostTensor lse(DType::kF32, {3, 3});
  mla.Run(Normal(DType::kF32, {3, 3, 16}), Normal(DType::kF32, {3, 3, 8}),
          {Normal(DType::kF32, {4, 4, 16}), Normal(DType::kF32, {4, 4, 8})}, out, lse);
}

void CallPagePositions() {
  HostTensor batch_indices(DType::kI32, {4});
  HostTensor positions(DType::kI32, {4});
  GetBatchIndicesPositions(Ints({0, 1, 3}), Ints({5, 2}), batch_indices, positions);
  HostTensor seq_lens(DType::kI32, {2});
  GetSeqLens(Ints({0, 2, 2}), Ints({3, 0}), 4, seq_lens);
}

AttentionProblem SmallAttention() {
  AttentionProblem p;
  p.dtype_q = p.dtype_kv = p.dtype_out = DType::kF32;
  p.num_qo_heads = 2;
  p.num_kv_heads = 1;
  p.head_dim_qk = 16;
  p.head_dim_vo = 8;
  p.page_size = 4;
  p.window_left = 3;
  return p;
}

void CallDecode() {
  const Cache c;
  Workspace workspace;
  BatchDecode decode(workspace);
  AttentionProblem p = SmallAttention();
  p.has_sinks = true;
  decode.Plan(p, c.pages());
  HostTensor out(DType::kF32, {2, 2, 8});
  HostTensor lse(DType::kF32, {2, 2});
  const HostTensor sinks = Normal(DType::kF32, {2});
  for (int i = 0; i < 2; ++i) {
    decode.Run(Normal(DType::kF32, {2, 2, 16}), c.cache(), out, lse,
               {.k_scale = 0.5f, .sinks = sinks});
  }
}

void CallPrefill() {
  const Cache c;
  Workspace workspace;
  BatchPrefill prefill(workspace);
  AttentionProblem p = SmallAttention();
  p.mask = MaskMode::kCausal;
  p.pos_encoding = PositionEncoding::kRopeLlama;
  p.rope_theta = 500;
  prefill.Plan(p, Ints({0, 3, 4}), c.pages());
  HostTensor out(DType::kF32, {4, 2, 8});
  prefill.Run(Normal(DType::kF32, {4, 2, 16}), c.cache(), out);
}

void CallCascade() {
  const Cache c;
  Workspace workspace;
  MultiLevelCascadeAttention cascade(workspace);
  AttentionProblem p = SmallAttention();
  p.mask = MaskMode::kCausal;
  p.window_left = -1;
  const HostTensor all = Ints({0, 4});
  const HostTensor requests = Ints({0, 3, 4});
  const HostTensor indptr = Ints({0, 1});
  const HostTensor indices = Ints({1});
  const HostTensor last_page_len = Ints({4});
  const std::vector<CascadeLevel> levels{{all, {indptr, indices, last_page_len}},
                                         {requests, c.pages()}};
  cascade.Plan(p, levels);
  HostTensor out(DType::kF32, {4, 2, 8});
  cascade.Run(Normal(DType::kF32, {4, 2, 16}), c.cache(), out);
}

void CallRaggedPrefill() {
  Workspace workspace;
  BatchPrefillRagged prefill(workspace);
  AttentionProblem p = SmallAttention();
  p.mask = MaskMode::kCustom;
  HostTensor custom(DType::kBool, {3 * 5});
  custom.Fill(1);
  custom.Set({4}, 0);
  prefill.Plan(p, Ints({0, 3}), Ints({0, 5}), {.custom = custom});
  HostTensor out(DType::kF32, {3, 2, 8});
  prefill.Run(Normal(DType::kF32, {3, 2, 16}),
              {Normal(DType::kF32, {5, 1, 16}), Normal(DType::kF32, {5, 1, 8})}, out);
}

void CallSingleAttention() {
  Workspace workspace;
  const HostTensor k = Normal(DType::kF32, {5, 1, 16});
  const HostTensor v = Normal(DType::kF32, {5, 1, 8});
  const HostTensor q = Normal(DType::kF32, {3, 2, 16});
  HostTensor out(DType::kF32, {3, 2, 8});
  AttentionProblem p = SmallAttention();
  SingleDecode(p, {.q = q.view()[0], .kv = {k, v}, .out = out.view()[0]}, workspace);
  p.mask = MaskMode::kCausal;
  p.pos_encoding = PositionEncoding::kAlibi;
  SinglePrefill(p, {.q = q, .kv = {k, v}, .out = out}, workspace);
}

void CallLinear() {
  const HostTensor first = Normal(DType::kBF16, {7, 32});
  const HostTensor second = Normal(DType::kF32, {3, 32});
  const WeightView sources[] = {{first.view().data(), WeightFormat::kBF16, 7, 32},
                                {second.view().data(), WeightFormat::kF32, 3, 32}};
  const PackedWeight weight(sources);
  HostTensor out(DType::kF32, {2, 10});
  Linear(Normal(DType::kF32, {2, 32}), weight, out, {.bias = Normal(DType::kF32, {10})});
  HostTensor rows(DType::kF32, {2, 32});
  weight.GatherRows(Ints({9, 0}), rows);
}

void CallGemm() {
  HostTensor out(DType::kF32, {3, 4});
  Gemm(Normal(DType::kF16, {3, 8}), Normal(DType::kF16, {4, 8}), out);
  Gemm(Normal(DType::kE4M3, {3, 8}), Normal(DType::kE5M2, {4, 8}), out, {.b_scale = 0.5f});
}

void CallSegmentGemm() {
  HostTensor out(DType::kF32, {3, 4});
  SegmentGemm(Normal(DType::kF32, {3, 8}), Normal(DType::kF32, {2, 4, 8}), Ints({0, 1, 1, 3}), out,
              {.weight_indices = Ints({1, 0, 0})});
}

void CallGroupedGemm() {
  const HostTensor out(DType::kF32, {3, 4});
  const HostTensor a = Normal(DType::kE4M3, {3, 8});
  const HostTensor b = Normal(DType::kE4M3, {2, 4, 8});
  const HostTensor a_scales = Normal(DType::kF32, {3, 2});
  const HostTensor b_scales = Normal(DType::kF32, {2, 1, 2});
  const GroupedGemmOptions options{.scales = {.a = a_scales, .b = b_scales, .k_per_scale = 4}};
  GroupedGemm(a, b, Ints({0, 1, 3}), out, options);
  GroupedGemmByRow(a, b, Ints({1, -1, 0}), out, options);
  const HostTensor masked(DType::kF32, {2, 3, 4});
  GroupedGemmMasked(Normal(DType::kF32, {2, 3, 8}), Normal(DType::kF32, {2, 4, 8}), Ints({2, 0}),
                    masked);
}

void CallSampling() {
  const HostTensor logits = Normal(DType::kF32, {3, 50});
  HostTensor probs(DType::kF32, {3, 50});
  HostTensor temperature(DType::kF32, {3});
  temperature.FillWith({1, 0.5, 0});
  Softmax(logits, probs, temperature.view());
  HostTensor tokens(DType::kI32, {3});
  HostTensor valid(DType::kBool, {3});
  SampleFromLogits(logits, tokens, {.temperature = 0.7f, .top_p = 0.8f, .seed = int64_t{1} << 40},
                   valid);
  SampleFromProbs(probs, tokens,
                  {.top_k = Ints({1, 2, 3}).view(), .filter_order = FilterOrder::kJoint});
  ArgMax(logits, tokens, valid);
  SampleFromProbs(probs, tokens, {.indices = Ints({2, 2, 0}).view()}, valid);
  TopKRenormProbs(probs, probs, 5);
  TopPRenormProbs(probs, probs, 0.5f);
  TopKMaskLogits(logits, logits, Ints({3, 0, 7}).view());
  HostTensor indices(DType::kI64, {3, 4});
  TopK(logits, TensorView(), indices, {.tie_break = TieBreak::kHighestIndex});
  HostTensor values(DType::kF32, {3, 4});
  TopK(logits, values, indices, {.sorted = true});
  HostTensor pages(DType::kI32, {3, 13});
  pages.FillUniform(Rng(), 0, 99);
  HostTensor places(DType::kI32, {3, 4});
  TopKPageTableTransform(logits, {.page_table = pages, .page_size = 4}, places);
  TopKRaggedTransform(logits, Ints({0, 50, 7}), places, {.lengths = Ints({50, 2, 0}).view()});
}

void CallChainSpeculative() {
  HostTensor draft(DType::kF32, {2, 2, 6});
  HostTensor target(DType::kF32, {2, 3, 6});
  draft.FillUniform(Rng(), 0, 1);
  target.FillUniform(Rng(), 0, 1);
  HostTensor drafted(DType::kI32, {2, 2});
  drafted.FillWith({0, 5, 3, 1});
  HostTensor tokens(DType::kI32, {2, 3});
  HostTensor count = Ints({7, 8});
  ChainSpeculativeSampling(draft, drafted, target, {.tokens = tokens, .num_emitted = count});
}

constexpr NamedCall kCalls[] = {
    {"append", CallAppend},
    {"latent_pages", CallLatentPages},
    {"mla", CallMla},
    {"page_positions", CallPagePositions},
    {"chain_speculative", CallChainSpeculative},
    {"decode", CallDecode},
    {"gemm", CallGemm},
    {"segment_gemm", CallSegmentGemm},
    {"grouped_gemm", CallGroupedGemm},
    {"linear", CallLinear},
    {"merge", CallMergeState},
    {"norm", CallNorm},
    {"cascade", CallCascade},
    {"prefill", CallPrefill},
    {"ragged_prefill", CallRaggedPrefill},
    {"single_attention", CallSingleAttention},
    {"packbits", CallPackBits},
    {"quantize", CallQuantize},
    {"rope", CallRope},
    {"sampling", CallSampling},
    {"activation", CallActivation},
};

}  // namespace

std::span<const NamedCall> EveryCall() { return kCalls; }

void Call(std::string_view name) {
  for (const NamedCall& call : kCalls) {
    if (call.name == name) return call.run();
  }
  throw std::invalid_argument("no call is named " + std::string(name));
}

}  // namespace flashinfer::test
