// SPDX-License-Identifier: Apache-2.0
// Merging attention states on CUDA devices: picks the spec of a call and launches its kernel.
#include "backends/cuda/merge_states.h"

#include "backends/cuda/problem.h"
#include "core/check.h"
#include "cuda/launch.h"
#include "jit/store.h"
#include "kernels/attention/merge_states_spec.h"

namespace flashinfer::cuda {
namespace {

bool Accepts(DType dtype, int32_t arch, std::string* why) {
  if (!IsOnArch(arch, kernels::MergeStatesSpec::kMinArch, why)) return false;
  if (!IsFloat(dtype)) return Refuse(why, "dtype must be f32, f16 or bf16");
  return true;
}

kernels::MergeStateRows RowsOf(const StateRows& rows, VectorSize& size, DType dtype) {
  size.Pointer(rows.v, dtype).Count(rows.v_stride_token).Count(rows.v_stride_head);
  return {rows.v,
          rows.s,
          rows.v_stride_token,
          rows.v_stride_head,
          rows.s_stride_token,
          rows.s_stride_head};
}

/// Fills what both forms share and launches.
void Merge(kernels::MergeStatesParams& params, VectorSize size, DType dtype, int64_t num_tokens,
           int64_t num_heads, Stream stream) {
  if (num_tokens == 0 || num_heads == 0 || params.head_dim == 0) return;
  params.num_rows = num_tokens * num_heads;
  FLASHINFER_CHECK(params.num_rows < int64_t{1} << 31,
                   "v: has {} tokens of {} heads, at most 2^31 - 1 rows together", num_tokens,
                   num_heads);
  params.num_heads = kernels::MakeDivisor(static_cast<uint32_t>(num_heads));
  kernels::MergeStatesSpec spec{
      .dtype = dtype, .vector_size = size.Count(params.head_dim).value(), .row_lanes = 1};
  while (spec.row_lanes < 32 && spec.row_lanes * spec.vector_size < params.head_dim) {
    spec.row_lanes *= 2;
  }
  const int64_t rows_per_block = NumThreads(spec) / spec.row_lanes;
  Launch(jit::GetKernel(spec, stream.device),
         {.grid_x = (params.num_rows + rows_per_block - 1) / rows_per_block,
          .overlaps_previous = true},
         params, stream);
}

}  // namespace

bool AcceptsMergeState(const MergeStateProblem& problem, std::string* why) {
  return Accepts(problem.dtype, problem.arch, why);
}

void RunMergeState(const MergeStateParams& p) {
  VectorSize size(p.dtype == DType::kF32 ? 4 : 8);
  kernels::MergeStatesParams params{};
  params.first = RowsOf(p.a, size, p.dtype);
  params.second = RowsOf(p.b, size, p.dtype);
  params.merged = RowsOf(p.merged, size, p.dtype);
  params.mask = p.mask;
  params.mask_stride = p.mask_stride;
  params.num_states = 2;
  params.head_dim = static_cast<int32_t>(p.head_dim);
  params.is_pair = true;
  Merge(params, size, p.dtype, p.num_tokens, p.num_heads, p.stream);
}

bool AcceptsMergeStates(const MergeStatesProblem& problem, std::string* why) {
  return Accepts(problem.dtype, problem.arch, why);
}

void RunMergeStates(const MergeStatesParams& p) {
  VectorSize size(p.dtype == DType::kF32 ? 4 : 8);
  kernels::MergeStatesParams params{};
  params.first = RowsOf(p.states, size, p.dtype);
  params.merged = RowsOf(p.merged, size, p.dtype);
  params.v_stride_state = p.v_stride_state;
  params.s_stride_state = p.s_stride_state;
  params.indptr = p.indptr;
  params.indptr_stride = p.indptr_stride;
  params.num_states = static_cast<int32_t>(p.num_states);
  params.head_dim = static_cast<int32_t>(p.head_dim);
  Merge(params, size.Count(p.v_stride_state), p.dtype, p.num_tokens, p.num_heads, p.stream);
}

}  // namespace flashinfer::cuda
