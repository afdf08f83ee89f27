// SPDX-License-Identifier: Apache-2.0
// Replay of the operators on rows of elements: norms, RoPE, activations, quantisation.
#include "flashinfer/flashinfer.h"
#include "replay_ops.h"

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

RopeOptions RopeOptionsOf(const DumpedCall& c) {
  const std::string& scaling = c.Text("scaling");
  return {.style = c.Bool("interleaved") ? RopeStyle::kInterleaved : RopeStyle::kNeox,
          .rotary_dim = c.Int("rotary_dim"),
          .rope_theta = c.Float("rope_theta"),
          .rope_scale = c.Float("rope_scale"),
          .scaling = scaling == "yarn"      ? RopeScaling::kYarn
                     : scaling == "llama31" ? RopeScaling::kLlama31
                                            : RopeScaling::kLinear,
          .old_context_len = c.Int("old_context_len"),
          .low_freq_factor = c.Float("low_freq_factor"),
          .high_freq_factor = c.Float("high_freq_factor"),
          .beta_fast = c.Float("beta_fast"),
          .beta_slow = c.Float("beta_slow"),
          .attention_factor = c.Float("attention_factor"),
          .frequency_factors = c.Tensor("frequency_factors"),
          .cos_sin_cache = c.Tensor("cos_sin_cache"),
          .quant_scale_q = c.Float("quant_scale_q"),
          .quant_scale_kv = c.Float("quant_scale_kv")};
}

void ReplayRope(const Call& c, ReplayObjects&) {
  ApplyRope(c->Tensor("q"), c->Tensor("k"), c->Tensor("pos_ids"), c->Tensor("q_out"),
            c->Tensor("k_out"), RopeOptionsOf(*c));
}

void ReplayRopeByOffsets(const Call& c, ReplayObjects&) {
  ApplyRopeByOffsets(c->Tensor("q"), c->Tensor("k"), {c->Tensor("indptr"), c->Tensor("offsets")},
                     c->Tensor("q_out"), c->Tensor("k_out"), RopeOptionsOf(*c));
}

void ReplayRopeQuantize(const Call& c, ReplayObjects&) {
  RopeQuantize({.q_rope = c->Tensor("q"),
                .k_rope = c->Tensor("k"),
                .q_nope = c->Tensor("q_nope"),
                .k_nope = c->Tensor("k_nope"),
                .q_rope_out = c->Tensor("q_out"),
                .k_rope_out = c->Tensor("k_out"),
                .q_nope_out = c->Tensor("q_nope_out"),
                .k_nope_out = c->Tensor("k_nope_out")},
               c->Tensor("pos_ids"), RopeOptionsOf(*c));
}

BitOrder BitOrderOf(const DumpedCall& c) {
  return c.Bool("little") ? BitOrder::kLittle : BitOrder::kBig;
}

void ReplayPackBits(const Call& c, ReplayObjects&) {
  PackBits(c->Tensor("x"), c->Tensor("packed"), BitOrderOf(*c));
}

void ReplaySegmentPackBits(const Call& c, ReplayObjects&) {
  SegmentPackBits(c->Tensor("x"), {c->Tensor("indptr"), c->Tensor("packed_indptr")},
                  c->Tensor("packed"), BitOrderOf(*c));
}

void ReplayQuantize(const Call& c, ReplayObjects&) {
  Quantize(c->Tensor("x"), c->Tensor("q"), c->Tensor("scales"),
           {.dynamic = c->Bool("dynamic"),
            .min_scale = c->Float("min_scale"),
            .power_of_two = c->Bool("power_of_two")});
}

void ReplayDequantize(const Call& c, ReplayObjects&) {
  Dequantize(c->Tensor("q"), c->Tensor("scales"), c->Tensor("out"));
}

ScaleLayout LayoutOf(const DumpedCall& c) {
  const std::string& layout = c.Text("scale_layout");
  if (layout == Name(ScaleLayout::kLinear)) return ScaleLayout::kLinear;
  return layout == Name(ScaleLayout::k8x4) ? ScaleLayout::k8x4 : ScaleLayout::k128x4;
}

QuantizeBlocksOptions QuantizeBlocksOptionsOf(const DumpedCall& c) {
  return {.scale_layout = LayoutOf(c),
          .global_scale = c.Float("global_scale"),
          .global_scale_tensor = c.Tensor("global_scale_tensor")};
}

void ReplayQuantizeBlocks(const Call& c, ReplayObjects&) {
  QuantizeBlocks(c->Tensor("x"), c->Tensor("q"), c->Tensor("block_scales"),
                 QuantizeBlocksOptionsOf(*c));
}

void ReplayDequantizeBlocks(const Call& c, ReplayObjects&) {
  DequantizeBlocks(c->Tensor("q"), c->Tensor("block_scales"), c->Tensor("out"),
                   QuantizeBlocksOptionsOf(*c));
}

void ReplaySwizzleBlockScales(const Call& c, ReplayObjects&) {
  SwizzleBlockScales(c->Tensor("linear"), c->Tensor("swizzled"), LayoutOf(*c));
}

constexpr ReplayRow kTable[] = {
    {"dequantize", ReplayDequantize},
    {"dequantize_blocks", ReplayDequantizeBlocks},
    {"fused_add_rmsnorm", ReplayAddNorm<FusedAddRmsNorm>},
    {"gelu_and_mul", ReplayActivation<GeluAndMul>},
    {"gelu_tanh_and_mul", ReplayActivation<GeluTanhAndMul>},
    {"gemma_fused_add_rmsnorm", ReplayAddNorm<GemmaFusedAddRmsNorm>},
    {"gemma_rmsnorm", ReplayNorm<GemmaRmsNorm>},
    {"layernorm", ReplayLayerNorm},
    {"packbits", ReplayPackBits},
    {"quantize", ReplayQuantize},
    {"quantize_blocks", ReplayQuantizeBlocks},
    {"rmsnorm", ReplayNorm<RmsNorm>},
    {"rope", ReplayRope},
    {"rope_by_offsets", ReplayRopeByOffsets},
    {"rope_quantize", ReplayRopeQuantize},
    {"segment_packbits", ReplaySegmentPackBits},
    {"silu_and_mul", ReplayActivation<SiluAndMul>},
    {"swizzle_block_scales", ReplaySwizzleBlockScales},
};

}  // namespace

std::span<const ReplayRow> RowOpReplayRows() { return kTable; }

}  // namespace flashinfer::cli
