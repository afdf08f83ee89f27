// SPDX-License-Identifier: Apache-2.0
// RoPE: check, choose, run.
#include "ops/rope.h"

#include "core/check.h"
#include "core/log.h"
#include "cuda/device.h"
#include "dispatch/choose.h"

namespace flashinfer {
namespace {

const TensorView kNone;

/// The arguments of any function here; heads in three dimensions.
struct Arguments {
  std::string_view function;  // in the API log
  RopeParts parts;
  const TensorView& pos_ids;  // undefined: by offsets
  RopeOffsets offsets = {};
};

bool HasQNope(const Arguments& a) {
  return a.parts.q_nope.defined() || a.parts.q_nope_out.defined();
}
bool HasKNope(const Arguments& a) {
  return a.parts.k_nope.defined() || a.parts.k_nope_out.defined();
}

int64_t RotaryDim(const Arguments& a, const RopeOptions& options) {
  return options.rotary_dim == 0 ? a.parts.q_rope.shape(2) : options.rotary_dim;
}

struct Named {
  std::string_view name;
  std::string_view name_out;
};

/// `head_dim` < 0: any.
void CheckPart(Named names, const TensorView& in, const TensorView& out, const RopeParts& parts,
               int64_t head_dim) {
  const TensorView& q = parts.q_rope;
  CheckTensor(names.name, in).On(q.device()).Is(q.dtype()).Shape({q.shape(0), -1, head_dim});
  CheckTensor(names.name, in).LastDimDense();
  CheckTensor(names.name_out, out).On(q.device()).Is(parts.q_rope_out.dtype()).Shape(in.shape());
  CheckTensor(names.name_out, out).LastDimDense().NoOverlap().ApartOrSame(names.name, in);
}

void CheckParts(const Arguments& a, Named q, Named k) {
  const RopeParts& p = a.parts;
  CheckTensor(q.name, p.q_rope)
      .IsOneOf({DType::kF32, DType::kF16, DType::kBF16})
      .Rank(3)
      .LastDimDense();
  CheckTensor(q.name_out, p.q_rope_out).IsOneOf({p.q_rope.dtype(), DType::kE4M3, DType::kE5M2});
  CheckPart(q, p.q_rope, p.q_rope_out, p, -1);
  CheckPart(k, p.k_rope, p.k_rope_out, p, p.q_rope.shape(2));
  if (HasQNope(a)) CheckPart({"q_nope", "q_nope_out"}, p.q_nope, p.q_nope_out, p, -1);
  if (HasKNope(a)) CheckPart({"k_nope", "k_nope_out"}, p.k_nope, p.k_nope_out, p, -1);
  CheckTensor(q.name_out, p.q_rope_out).Apart(k.name, p.k_rope).Apart(k.name_out, p.k_rope_out);
  CheckTensor(k.name_out, p.k_rope_out).Apart(q.name, p.q_rope);
}

void CheckCache(const Arguments& a, const TensorView& cache, int64_t rotary_dim) {
  CheckTensor("cos_sin_cache", cache)
      .On(a.parts.q_rope.device())
      .Is(DType::kF32)
      .Shape({-1, rotary_dim})
      .LastDimDense();
  const auto check = [&](int64_t token, int64_t position) {
    FLASHINFER_CHECK(position >= 0 && position < cache.shape(0),
                     "cos_sin_cache: has {} positions, token {} is at {}", cache.shape(0), token,
                     position);
  };
  if (cache.device().type != DeviceType::kCpu) return;
  if (a.pos_ids.defined()) {
    for (int64_t i = 0; i < a.pos_ids.shape(0); ++i) {
      const int64_t at = i * a.pos_ids.stride(0);
      check(i, a.pos_ids.dtype() == DType::kI64 ? a.pos_ids.data_as<const int64_t>()[at]
                                                : a.pos_ids.data_as<const int32_t>()[at]);
    }
    return;
  }
  const int32_t* indptr = a.offsets.indptr.data_as<const int32_t>();
  for (int64_t i = 0; i < a.offsets.offsets.shape(0); ++i) {
    const int64_t first = a.offsets.offsets.data_as<const int32_t>()[i];
    if (indptr[i] == indptr[i + 1]) continue;
    check(indptr[i], first);
    check(indptr[i + 1] - 1, first + indptr[i + 1] - indptr[i] - 1);
  }
}

void CheckPositions(const Arguments& a) {
  const TensorView& q = a.parts.q_rope;
  if (a.offsets.indptr.defined()) {
    const TensorView& indptr = a.offsets.indptr;
    CheckTensor("indptr", indptr).On(q.device()).Is(DType::kI32).Rank(1).LastDimDense();
    FLASHINFER_CHECK(indptr.shape(0) > 0, "indptr: is empty, expected num_requests + 1 elements");
    CheckTensor("offsets", a.offsets.offsets)
        .On(q.device())
        .Is(DType::kI32)
        .Shape({indptr.shape(0) - 1})
        .LastDimDense();
    if (q.device().type != DeviceType::kCpu) return;
    CheckIndptr("indptr", indptr);
    const int64_t last = indptr.data_as<const int32_t>()[indptr.shape(0) - 1];
    FLASHINFER_CHECK(last == q.shape(0), "indptr: ends at {}, expected num_tokens {}", last,
                     q.shape(0));
    return;
  }
  CheckTensor("pos_ids", a.pos_ids)
      .On(q.device())
      .IsOneOf({DType::kI32, DType::kI64})
      .Shape({q.shape(0)});
}

void CheckOptions(const Arguments& a, const RopeOptions& options) {
  const TensorView& q = a.parts.q_rope;
  const int64_t rotary_dim = RotaryDim(a, options);
  FLASHINFER_CHECK(rotary_dim >= 0 && rotary_dim <= q.shape(2) && rotary_dim % 2 == 0,
                   "rotary_dim: is {}, accepted: even, 0 to head_dim {}", rotary_dim, q.shape(2));
  if (options.frequency_factors.defined()) {
    CheckTensor("frequency_factors", options.frequency_factors)
        .On(q.device())
        .Is(DType::kF32)
        .Shape({rotary_dim / 2})
        .LastDimDense();
  }
  if (options.cos_sin_cache.defined()) CheckCache(a, options.cos_sin_cache, rotary_dim);
}

RopeHeads HeadsOf(const TensorView& in, const TensorView& out, float quant_scale) {
  if (!in.defined()) return {};
  return {.in = in.data(),
          .out = out.data(),
          .num_heads = in.shape(1),
          .head_dim = in.shape(2),
          .in_stride_token = in.stride(0),
          .in_stride_head = in.stride(1),
          .out_stride_token = out.stride(0),
          .out_stride_head = out.stride(1),
          .quant_scale = out.dtype() == in.dtype() ? 1.0f : quant_scale};
}

RopePositions PositionsOf(const Arguments& a) {
  if (a.offsets.indptr.defined()) {
    return {.indptr = a.offsets.indptr.data_as<const int32_t>(),
            .offsets = a.offsets.offsets.data_as<const int32_t>(),
            .num_requests = a.offsets.offsets.shape(0)};
  }
  return {
      .ids = a.pos_ids.data(), .ids_stride = a.pos_ids.stride(0), .dtype_ids = a.pos_ids.dtype()};
}

/// The same names as in dumps and replays of calls.
void Log(const Arguments& a, const RopeOptions& o) {
  const RopeParts& p = a.parts;
  LogCall(a.function, {{"q", p.q_rope},
                       {"k", p.k_rope},
                       {"q_nope", p.q_nope},
                       {"k_nope", p.k_nope},
                       {"pos_ids", a.pos_ids},
                       {"indptr", a.offsets.indptr},
                       {"offsets", a.offsets.offsets},
                       {"q_out", p.q_rope_out},
                       {"k_out", p.k_rope_out},
                       {"q_nope_out", p.q_nope_out},
                       {"k_nope_out", p.k_nope_out},
                       {"interleaved", ValueText(o.style == RopeStyle::kInterleaved)},
                       {"rotary_dim", ValueText(o.rotary_dim)},
                       {"rope_theta", ValueText(o.rope_theta)},
                       {"rope_scale", ValueText(o.rope_scale)},
                       {"scaling", ValueText(o.scaling)},
                       {"old_context_len", ValueText(o.old_context_len)},
                       {"low_freq_factor", ValueText(o.low_freq_factor)},
                       {"high_freq_factor", ValueText(o.high_freq_factor)},
                       {"beta_fast", ValueText(o.beta_fast)},
                       {"beta_slow", ValueText(o.beta_slow)},
                       {"attention_factor", ValueText(o.attention_factor)},
                       {"frequency_factors", o.frequency_factors},
                       {"cos_sin_cache", o.cos_sin_cache},
                       {"quant_scale_q", ValueText(o.quant_scale_q)},
                       {"quant_scale_kv", ValueText(o.quant_scale_kv)}});
}

void Run(const Arguments& a, const RopeOptions& options, Stream stream) {
  const RopeParts& p = a.parts;
  const int64_t rotary_dim = RotaryDim(a, options);
  const bool interleaved = options.style == RopeStyle::kInterleaved;
  const TensorView& cache = options.cos_sin_cache;
  RopeRule rule;
  if (!cache.defined()) rule = MakeRopeRule(options, rotary_dim);
  const auto& run = Choose<RopeOp>({.dtype = p.q_rope.dtype(),
                                    .dtype_out = p.q_rope_out.dtype(),
                                    .interleaved = interleaved,
                                    .rotary_dim = rotary_dim,
                                    .arch = cuda::ArchOf(p.q_rope.device())},
                                   options.backend);
  run({.q = HeadsOf(p.q_rope, p.q_rope_out, options.quant_scale_q),
       .k = HeadsOf(p.k_rope, p.k_rope_out, options.quant_scale_kv),
       .q_nope = HeadsOf(p.q_nope, p.q_nope_out, options.quant_scale_q),
       .k_nope = HeadsOf(p.k_nope, p.k_nope_out, options.quant_scale_kv),
       .num_tokens = p.q_rope.shape(0),
       .rotary_dim = rotary_dim,
       .positions = PositionsOf(a),
       .rule = rule,
       .cos_sin_cache = cache.data_as<const float>(),
       .cos_sin_cache_stride = cache.defined() ? cache.stride(0) : 0,
       .dtype = p.q_rope.dtype(),
       .dtype_out = p.q_rope_out.dtype(),
       .interleaved = interleaved,
       .stream = cuda::StreamOn(p.q_rope.device(), stream)});
  if (LogLevel() >= 5) [[unlikely]] {
    LogReturn(a.function, {{"q_out", p.q_rope_out},
                           {"k_out", p.k_rope_out},
                           {"q_nope_out", p.q_nope_out},
                           {"k_nope_out", p.k_nope_out}});
  }
}

void Apply(const Arguments& a, const RopeOptions& options, Stream stream) {
  if (LogLevel() > 0) [[unlikely]]
    Log(a, options);
  CheckParts(a, {"q", "q_out"}, {"k", "k_out"});
  CheckPositions(a);
  CheckOptions(a, options);
  Run(a, options, stream);
}

/// [num_tokens, dim] as [num_tokens, 1, dim].
TensorView InHeads(const TensorView& heads) {
  if (!heads.defined() || heads.rank() != 2) return heads;
  return {heads.data(),
          heads.dtype(),
          {heads.shape(0), 1, heads.shape(1)},
          {heads.stride(0), heads.shape(1) * heads.stride(1), heads.stride(1)},
          heads.device()};
}

}  // namespace

void ApplyRope(const TensorView& q, const TensorView& k, const TensorView& pos_ids,
               const TensorView& q_out, const TensorView& k_out, const RopeOptions& options,
               Stream stream) {
  const RopeParts parts{.q_rope = q, .k_rope = k, .q_rope_out = q_out, .k_rope_out = k_out};
  Apply({"rope", parts, pos_ids}, options, stream);
}

void ApplyRopeByOffsets(const TensorView& q, const TensorView& k, const RopeOffsets& offsets,
                        const TensorView& q_out, const TensorView& k_out,
                        const RopeOptions& options, Stream stream) {
  const RopeParts parts{.q_rope = q, .k_rope = k, .q_rope_out = q_out, .k_rope_out = k_out};
  CheckTensor("indptr", offsets.indptr);
  Apply({"rope_by_offsets", parts, kNone, offsets}, options, stream);
}

void RopeQuantize(const RopeParts& parts, const TensorView& pos_ids, const RopeOptions& options,
                  Stream stream) {
  const RopeParts in_heads{.q_rope = InHeads(parts.q_rope),
                           .k_rope = InHeads(parts.k_rope),
                           .q_nope = InHeads(parts.q_nope),
                           .k_nope = InHeads(parts.k_nope),
                           .q_rope_out = InHeads(parts.q_rope_out),
                           .k_rope_out = InHeads(parts.k_rope_out),
                           .q_nope_out = InHeads(parts.q_nope_out),
                           .k_nope_out = InHeads(parts.k_nope_out)};
  const Arguments a{"rope_quantize", in_heads, pos_ids};
  if (LogLevel() > 0) [[unlikely]]
    Log(a, options);
  CheckTensor("q_rope_out", in_heads.q_rope_out).IsOneOf({DType::kE4M3, DType::kE5M2});
  CheckParts(a, {"q_rope", "q_rope_out"}, {"k_rope", "k_rope_out"});
  CheckPositions(a);
  CheckOptions(a, options);
  Run(a, options, stream);
}

}  // namespace flashinfer
