// SPDX-License-Identifier: Apache-2.0
// RoPE on CUDA devices: picks the spec of a call and launches its kernel.
#include "backends/cuda/rope.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "backends/cuda/problem.h"
#include "core/check.h"
#include "cuda/launch.h"
#include "jit/store.h"
#include "kernels/rope/rope_spec.h"

namespace flashinfer::cuda {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

bool SameRule(const RopeRule& a, const RopeRule& b) {
  return a.theta == b.theta && a.scale == b.scale &&
         a.smooth_per_frequency == b.smooth_per_frequency &&
         a.smooth_per_pair == b.smooth_per_pair && a.smooth_constant == b.smooth_constant;
}

/// Turns per position as the kernel takes them. Models call with the same rule every layer: kept by
/// the thread.
void FillTurns(const RopeRule& rule, int64_t rotary_dim,
               uint64_t (&turns)[kernels::kMaxRopePairs]) {
  struct Known {
    int64_t rotary_dim = -1;
    RopeRule rule;
    double turns[kernels::kMaxRopePairs];
  };
  thread_local Known known;
  if (known.rotary_dim != rotary_dim || !SameRule(known.rule, rule)) {
    FillTurnsPerPosition(rule, rotary_dim, known.turns);
    known.rotary_dim = rotary_dim;
    known.rule = rule;
  }
  for (int64_t i = 0; i < rotary_dim / 2; ++i) {
    const double x = known.turns[i];
    turns[i] = rule.frequency_factors != nullptr
                   ? std::bit_cast<uint64_t>(x)
                   : static_cast<uint64_t>((x - std::floor(x)) * 0x1p64);
  }
}

/// The heads of one part; `rotary_dim` is 0 where they are only copied.
kernels::RopeHeadsParams PartOf(const RopeHeads& h, const RopeParams& p, int64_t rotary_dim,
                                VectorSize& size) {
  kernels::RopeHeadsParams part{};
  if (h.num_heads == 0) return part;
  size.Pointer(h.in, p.dtype)
      .Pointer(h.out, p.dtype_out)
      .Count(h.in_stride_token)
      .Count(h.in_stride_head)
      .Count(h.out_stride_token)
      .Count(h.out_stride_head)
      .Count(rotary_dim / 2);
  const bool in_place = h.in == h.out && p.dtype == p.dtype_out;
  part = {.in = h.in,
          .out = h.out,
          .in_stride_token = h.in_stride_token,
          .in_stride_head = h.in_stride_head,
          .out_stride_token = h.out_stride_token,
          .out_stride_head = h.out_stride_head,
          .num_heads = static_cast<int32_t>(h.num_heads),
          .num_groups = 0,
          .first_copied = static_cast<int32_t>(rotary_dim),
          .end = static_cast<int32_t>(in_place ? rotary_dim : h.head_dim),
          .quant_scale = h.quant_scale};
  size.Count(part.end - part.first_copied);
  return part;
}

}  // namespace

bool AcceptsRope(const RopeProblem& problem, std::string* why) {
  if (!IsOnArch(problem.arch, kernels::RopeSpec::kMinArch, why)) return false;
  if (!IsFloat(problem.dtype)) return Refuse(why, "dtype must be f32, f16 or bf16");
  if (problem.dtype_out != problem.dtype && !IsFp8(problem.dtype_out)) {
    return Refuse(why, "dtype_out must be dtype, e4m3 or e5m2");
  }
  if (problem.rotary_dim > 2 * kernels::kMaxRopePairs) {
    return Refuse(why, "rotary_dim must be at most 512");
  }
  return true;
}

void RunRope(const RopeParams& p) {
  VectorSize size(p.dtype == DType::kF32 ? 4 : 8);
  kernels::RopeParams params;
  int64_t num_heads = 0;
  int64_t copied = 0;
  const RopeHeads* const parts[4] = {&p.q, &p.k, &p.q_nope, &p.k_nope};
  for (int i = 0; i < 4; ++i) {
    kernels::RopeHeadsParams& part = params.heads[i];
    part = PartOf(*parts[i], p, i < 2 ? p.rotary_dim : 0, size);
    num_heads += part.num_heads;
    copied = std::max<int64_t>(copied, part.end - part.first_copied);
  }
  if (p.num_tokens == 0 || num_heads == 0 || p.rotary_dim / 2 + copied == 0) return;
  kernels::RopeSpec spec{
      .dtype = p.dtype,
      .dtype_out = p.dtype_out,
      .dtype_ids = p.positions.dtype_ids,
      .interleaved = p.interleaved,
      .has_cache = p.cos_sin_cache != nullptr,
      .has_factors = p.cos_sin_cache == nullptr && p.rule.frequency_factors != nullptr,
      .vector_size = size.value()};
  params.ids = p.positions.ids;
  params.ids_stride = p.positions.ids_stride;
  params.indptr = p.positions.indptr;
  params.offsets = p.positions.offsets;
  params.cache = p.cos_sin_cache;
  params.cache_stride = p.cos_sin_cache_stride;
  params.frequency_factors = p.rule.frequency_factors;
  params.num_tokens = p.num_tokens;
  params.num_requests = static_cast<int32_t>(p.positions.num_requests);
  params.num_pairs = static_cast<int32_t>(p.rotary_dim / 2);
  params.magnitude = p.rule.magnitude;
  if (!spec.has_cache) FillTurns(p.rule, p.rotary_dim, params.turns);

  const int64_t units_per_group = (params.num_pairs + copied) / spec.vector_size;
  const int64_t threads = NumThreads(spec);
  // One head a thread until that fills the device.
  if (p.num_tokens * num_heads * units_per_group < 132 * 2 * threads) spec.heads_per_thread = 1;
  int64_t groups_per_token = 0;
  for (kernels::RopeHeadsParams& part : params.heads) {
    part.num_groups = static_cast<int32_t>(CeilDiv(part.num_heads, spec.heads_per_thread));
    groups_per_token += part.num_groups;
  }
  const int64_t units_per_token = groups_per_token * units_per_group;
  FLASHINFER_CHECK(units_per_token < (1 << 23), "q: has {} heads with k, too many", num_heads);
  params.units_per_group = kernels::MakeDivisor(static_cast<uint32_t>(units_per_group));
  params.groups_per_token = kernels::MakeDivisor(static_cast<uint32_t>(groups_per_token));
  params.tokens_per_block = static_cast<int32_t>(std::max<int64_t>(1, threads / units_per_token));
  Launch(jit::GetKernel(spec, p.stream.device),
         {.grid_x = CeilDiv(p.num_tokens, params.tokens_per_block),
          .grid_y = CeilDiv(params.tokens_per_block * units_per_token, threads),
          .overlaps_previous = true},
         params, p.stream);
}

}  // namespace flashinfer::cuda
