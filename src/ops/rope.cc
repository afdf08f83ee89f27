// SPDX-License-Identifier: Apache-2.0
// RoPE: check, choose, run.
#include "ops/rope.h"

#include "core/check.h"
#include "core/log.h"
#include "dispatch/choose.h"

namespace flashinfer {
namespace {

int64_t RotaryDim(const TensorView& q, const RopeOptions& options) {
  return options.rotary_dim == 0 ? q.shape(2) : options.rotary_dim;
}

void CheckHeads(std::string_view name, const TensorView& heads, const TensorView& q) {
  CheckTensor(name, heads)
      .On(q.device())
      .Is(q.dtype())
      .Shape({q.shape(0), -1, q.shape(2)})
      .LastDimDense();
}

void Check(const TensorView& q, const TensorView& k, const TensorView& q_out,
           const TensorView& k_out, const RopeOptions& options) {
  CheckTensor("q", q).IsOneOf({DType::kF32, DType::kF16, DType::kBF16}).Rank(3).LastDimDense();
  CheckHeads("k", k, q);
  CheckTensor("q_out", q_out).On(q.device()).Is(q.dtype()).Shape(q.shape()).LastDimDense();
  CheckTensor("q_out", q_out).NoOverlap();
  CheckTensor("k_out", k_out).On(q.device()).Is(q.dtype()).Shape(k.shape()).LastDimDense();
  CheckTensor("k_out", k_out).NoOverlap();
  const int64_t rotary_dim = RotaryDim(q, options);
  FLASHINFER_CHECK(rotary_dim >= 0 && rotary_dim <= q.shape(2) && rotary_dim % 2 == 0,
                   "rotary_dim: is {}, accepted: even, 0 to head_dim {}", rotary_dim, q.shape(2));
  FLASHINFER_CHECK(options.rope_theta > 0, "rope_theta: is {}, expected more than 0",
                   options.rope_theta);
  FLASHINFER_CHECK(options.rope_scale > 0, "rope_scale: is {}, expected more than 0",
                   options.rope_scale);
  if (options.frequency_factors.defined()) {
    CheckTensor("frequency_factors", options.frequency_factors)
        .On(q.device())
        .Is(DType::kF32)
        .Shape({rotary_dim / 2})
        .LastDimDense();
  }
}

RopeHeads HeadsOf(const TensorView& in, const TensorView& out) {
  return {.in = in.data(),
          .out = out.data(),
          .num_heads = in.shape(1),
          .in_stride_token = in.stride(0),
          .in_stride_head = in.stride(1),
          .out_stride_token = out.stride(0),
          .out_stride_head = out.stride(1)};
}

}  // namespace

void ApplyRope(const TensorView& q, const TensorView& k, const TensorView& pos_ids,
               const TensorView& q_out, const TensorView& k_out, const RopeOptions& options,
               Stream) {
  const bool interleaved = options.style == RopeStyle::kInterleaved;
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("rope", {{"q", q},
                     {"k", k},
                     {"pos_ids", pos_ids},
                     {"q_out", q_out},
                     {"k_out", k_out},
                     {"interleaved", ValueText(interleaved)},
                     {"rotary_dim", ValueText(options.rotary_dim)},
                     {"rope_theta", ValueText(options.rope_theta)},
                     {"rope_scale", ValueText(options.rope_scale)},
                     {"frequency_factors", options.frequency_factors}});
  }
  Check(q, k, q_out, k_out, options);
  CheckTensor("pos_ids", pos_ids)
      .On(q.device())
      .IsOneOf({DType::kI32, DType::kI64})
      .Shape({q.shape(0)});
  const int64_t rotary_dim = RotaryDim(q, options);
  const auto& run = Choose<RopeOp>({q.dtype(), interleaved, rotary_dim}, options.backend);
  run({.q = HeadsOf(q, q_out),
       .k = HeadsOf(k, k_out),
       .num_tokens = q.shape(0),
       .head_dim = q.shape(2),
       .rotary_dim = rotary_dim,
       .pos_ids = pos_ids.data(),
       .pos_ids_stride = pos_ids.stride(0),
       .frequency_factors = options.frequency_factors.data_as<const float>(),
       .rope_theta = options.rope_theta,
       .rope_scale = options.rope_scale,
       .dtype = q.dtype(),
       .dtype_pos_ids = pos_ids.dtype(),
       .interleaved = interleaved});
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("rope", {{"q_out", q_out}, {"k_out", k_out}});
}

}  // namespace flashinfer
