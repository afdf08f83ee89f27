// SPDX-License-Identifier: Apache-2.0
// Checks of attention problems and tensors, and the text forms of their enumerations.
#include "ops/attention.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/check.h"
#include "core/name_table.h"
#include "core/text.h"

namespace flashinfer {
namespace {

constexpr NameTable<MaskMode, 4> kMaskModes{{"none", "causal", "custom", "multi_item"}};
constexpr NameTable<PositionEncoding, 3> kPositionEncodings{{"none", "rope_llama", "alibi"}};

}  // namespace

std::string_view Name(KvLayout layout) { return layout == KvLayout::kNHD ? "NHD" : "HND"; }

std::string_view Name(MaskMode mode) { return kMaskModes[mode]; }
std::string_view Name(PositionEncoding encoding) { return kPositionEncodings[encoding]; }

std::string ValueText(MaskMode value) { return std::string(Name(value)); }
std::string ValueText(PositionEncoding value) { return std::string(Name(value)); }
void ParseValue(std::string_view field, std::string_view text, MaskMode& value) {
  kMaskModes.Parse(field, text, value);
}
void ParseValue(std::string_view field, std::string_view text, PositionEncoding& value) {
  kPositionEncodings.Parse(field, text, value);
}

void CheckAttentionProblem(const AttentionProblem& p) {
  FLASHINFER_CHECK(p.num_kv_heads > 0, "num_kv_heads: is {}, expected 1 or more", p.num_kv_heads);
  FLASHINFER_CHECK(p.num_qo_heads > 0 && p.num_qo_heads % p.num_kv_heads == 0,
                   "num_qo_heads: is {}, expected a multiple of num_kv_heads, {}", p.num_qo_heads,
                   p.num_kv_heads);
  for (const auto& [name, dim] :
       {std::pair{"head_dim_qk", p.head_dim_qk}, std::pair{"head_dim_vo", p.head_dim_vo}}) {
    FLASHINFER_CHECK(dim > 0 && dim % 8 == 0 && dim <= 512,
                     "{}: is {}, accepted: multiples of 8 up to 512", name, dim);
  }
  FLASHINFER_CHECK(p.page_size >= 0, "page_size: is {}, expected 1 or more", p.page_size);
  FLASHINFER_CHECK(std::isfinite(p.sm_scale), "sm_scale: is {}, expected a finite number",
                   p.sm_scale);
  FLASHINFER_CHECK(p.logits_soft_cap >= 0 && std::isfinite(p.logits_soft_cap),
                   "logits_soft_cap: is {}, expected a finite number, 0 or more",
                   p.logits_soft_cap);
  FLASHINFER_CHECK(p.window_left >= -1, "window_left: is {}, expected -1 or more", p.window_left);
  FLASHINFER_CHECK(p.fixed_split_size >= 0 && p.fixed_split_size % 64 == 0,
                   "fixed_split_size: is {}, accepted: 0 and multiples of 64", p.fixed_split_size);
  for (const auto& [name, value] :
       {std::pair{"rope_scale", p.rope_scale}, std::pair{"rope_theta", p.rope_theta}}) {
    FLASHINFER_CHECK(value > 0 && std::isfinite(value), "{}: is {}, expected a number above 0",
                     name, value);
  }
}

PageStrides StridesOf(const TensorView& tensor, KvLayout layout) {
  const bool nhd = layout == KvLayout::kNHD;
  return {tensor.stride(0), tensor.stride(nhd ? 1 : 2), tensor.stride(nhd ? 2 : 1)};
}

void CheckCacheTensor(std::string_view name, const TensorView& tensor, KvLayout layout, DType dtype,
                      int64_t page_size, int64_t num_kv_heads, int64_t head_dim, Device device) {
  const bool nhd = layout == KvLayout::kNHD;
  CheckTensor(name, tensor)
      .On(device)
      .Is(dtype)
      .Shape({-1, nhd ? page_size : num_kv_heads, nhd ? num_kv_heads : page_size, head_dim})
      .LastDimDense();
}

namespace {

/// Checks that every page is there, or every slot of keys that are not in pages.
void CheckPages(const AttentionProblem& p, const AttentionTables& tables,
                const AttentionTensors& t) {
  const int64_t listed = tables.kv_begin.empty() ? 0 : tables.kv_begin.back();
  if (p.page_size == kNoPages) {
    const int slots = t.cache.layout == KvLayout::kNHD ? 1 : 2;
    for (const auto& [name, tensor] : {std::pair{"k", &t.cache.k}, std::pair{"v", &t.cache.v}}) {
      FLASHINFER_CHECK(tensor->shape(slots) >= listed, "{}: has {} keys, the plan is of {}", name,
                       tensor->shape(slots), listed);
    }
    return;
  }
  if (tables.device.type != DeviceType::kCpu) return;
  const int64_t num_pages = std::min(t.cache.k.shape(0), t.cache.v.shape(0));
  for (int64_t i = 0; i < listed; ++i) {
    const int32_t page = tables.pages[i * tables.pages_stride];
    FLASHINFER_CHECK(page >= 0 && page < num_pages,
                     "indices[{}]: is {}, the cache has pages 0 to {}", i, page, num_pages - 1);
  }
}

/// A float per head, which the problem wants or allows.
void CheckPerHead(std::string_view name, const TensorView& tensor, int64_t num_heads,
                  Device device) {
  if (!tensor.defined()) return;
  CheckTensor(name, tensor).On(device).Is(DType::kF32).Shape({num_heads});
}

void CheckExtras(const AttentionProblem& p, const AttentionTables& tables,
                 const AttentionExtras& x) {
  CheckPerHead("q_scales", x.q_scales, p.num_qo_heads, tables.device);
  CheckPerHead("k_scales", x.k_scales, p.num_kv_heads, tables.device);
  CheckPerHead("v_scales", x.v_scales, p.num_kv_heads, tables.device);
  CheckPerHead("sinks", x.sinks, p.num_qo_heads, tables.device);
  CheckPerHead("alibi_slopes", x.alibi_slopes, p.num_qo_heads, tables.device);
  FLASHINFER_CHECK(x.sinks.defined() == p.has_sinks, "sinks: {}, but the plan has has_sinks={}",
                   x.sinks.defined() ? "were given" : "no tensor was given", p.has_sinks);
  FLASHINFER_CHECK(!x.alibi_slopes.defined() || p.pos_encoding == PositionEncoding::kAlibi,
                   "alibi_slopes: were given, but the plan has pos_encoding={}",
                   Name(p.pos_encoding));
  CheckVariantValues(p.variant, x.variant_values, tables.device);
  FLASHINFER_CHECK(x.bias.defined() == p.has_bias, "bias: {}, but the plan has has_bias={}",
                   x.bias.defined() ? "was given" : "no tensor was given", p.has_bias);
  if (!p.has_bias) return;
  int64_t longest = 0;
  for (int64_t n : tables.kv_len) longest = std::max(longest, n);
  CheckTensor("bias", x.bias)
      .On(tables.device)
      .IsOneOf({DType::kF32, DType::kF16, DType::kBF16})
      .Shape({x.bias.shape(0) == 1 ? 1 : p.num_qo_heads, tables.num_tokens(), -1})
      .LastDimDense();
  FLASHINFER_CHECK(x.bias.shape(2) >= longest, "bias: has {} keys, the longest kv_len is {}",
                   x.bias.shape(2), longest);
}

}  // namespace

void CheckAttentionTensors(const AttentionProblem& p, const AttentionTables& tables,
                           const AttentionTensors& t) {
  const int64_t num_tokens = tables.num_tokens();
  const bool is_paged = p.page_size != kNoPages;
  CheckTensor("q", t.q)
      .On(tables.device)
      .Is(p.dtype_q)
      .Shape({num_tokens, p.num_qo_heads, p.head_dim_qk})
      .LastDimDense();
  CheckCacheTensor(is_paged ? "cache.k" : "k", t.cache.k, t.cache.layout, p.dtype_kv,
                   is_paged ? p.page_size : -1, p.num_kv_heads, p.head_dim_qk, tables.device);
  CheckCacheTensor(is_paged ? "cache.v" : "v", t.cache.v, t.cache.layout, p.dtype_kv,
                   is_paged ? p.page_size : -1, p.num_kv_heads, p.head_dim_vo, tables.device);
  CheckTensor("out", t.out)
      .On(tables.device)
      .Is(p.dtype_out)
      .Shape({num_tokens, p.num_qo_heads, p.head_dim_vo})
      .LastDimDense()
      .NoOverlap()
      .ApartOrSame("q", t.q)
      .Apart(is_paged ? "cache.k" : "k", t.cache.k)
      .Apart(is_paged ? "cache.v" : "v", t.cache.v);
  if (t.lse.defined()) {
    CheckTensor("lse", t.lse)
        .On(tables.device)
        .Is(DType::kF32)
        .Shape({num_tokens, p.num_qo_heads})
        .NoOverlap();
  }
  CheckPages(p, tables, t);
  CheckExtras(p, tables, t.extras);
}

void AttentionExecutor::PlanOnDevice(const AttentionProblem&, const AttentionTables&,
                                     const DeviceLengths&, Workspace&, Stream) {
  throw Error(ErrorKind::kUnsupported, "the backend of this problem plans on the host only");
}

std::vector<float> AlibiSlopes(int32_t num_qo_heads) {
  int32_t power = 1;
  while (power * 2 <= num_qo_heads) power *= 2;
  std::vector<float> slopes;
  slopes.reserve(static_cast<size_t>(num_qo_heads));
  for (int32_t i = 1; i <= power; ++i) slopes.push_back(std::exp2(-8.0f * i / power));
  for (int32_t i = 1; power + (i + 1) / 2 <= num_qo_heads; i += 2) {
    slopes.push_back(std::exp2(-4.0f * i / power));
  }
  return slopes;
}

}  // namespace flashinfer
