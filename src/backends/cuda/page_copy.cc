// SPDX-License-Identifier: Apache-2.0
// Appending to a paged KV cache, and gathering from it, on CUDA devices: picks the spec of a call
// and launches its kernel.
#include "backends/cuda/page_copy.h"

#include <algorithm>

#include "backends/cuda/problem.h"
#include "core/check.h"
#include "cuda/launch.h"
#include "jit/store.h"
#include "kernels/page/page_copy_spec.h"

namespace flashinfer::cuda {
namespace {

bool IsQuantised(DType t) { return IsFp8(t) || t == DType::kI8; }

/// Rows that are only copied may be of any dtype: those of other widths go as floats or bytes.
DType CopiedAs(DType dtype) {
  switch (SizeBytes(dtype)) {
    case 1:
      return DType::kI8;
    case 2:
      return DType::kF16;
    default:
      return DType::kF32;
  }
}

void CountRows(const PageCopyRows& r, DType dtype, DType dtype_kv, VectorSize& size) {
  if (r.head_dim == 0) return;
  size.Pointer(r.rows, dtype)
      .Pointer(r.cache, dtype_kv)
      .Count(r.rows_stride_token)
      .Count(r.rows_stride_head)
      .Count(r.cache_stride_page)
      .Count(r.cache_stride_slot)
      .Count(r.cache_stride_head)
      .Count(r.head_dim);
}

kernels::PageCopyRows RowsOf(const PageCopyRows& r, int64_t num_heads, int32_t vector_size) {
  const int64_t per_head = r.head_dim / vector_size;
  return {.rows = r.rows,
          .cache = r.cache,
          .rows_stride_token = r.rows_stride_token,
          .rows_stride_head = r.rows_stride_head,
          .cache_stride_page = r.cache_stride_page,
          .cache_stride_slot = r.cache_stride_slot,
          .cache_stride_head = r.cache_stride_head,
          .num_units = static_cast<int32_t>(num_heads * per_head),
          .scale = r.scale,
          .units_per_head =
              kernels::MakeDivisor(static_cast<uint32_t>(std::max<int64_t>(1, per_head)))};
}

void Run(const PageCopyParams& p, bool gathers) {
  if (p.num_tokens == 0 || p.num_heads == 0) return;
  const bool is_copy = p.dtype == p.dtype_kv;
  kernels::PageCopySpec spec{.dtype = is_copy ? CopiedAs(p.dtype) : p.dtype,
                             .dtype_kv = is_copy ? CopiedAs(p.dtype) : p.dtype_kv,
                             .gathers = gathers};
  const int64_t widest = std::max(SizeBytes(spec.dtype), SizeBytes(spec.dtype_kv));
  VectorSize size(static_cast<int32_t>(16 / widest));
  for (const PageCopyRows& rows : p.parts) CountRows(rows, p.dtype, p.dtype_kv, size);
  spec.vector_size = size.value();
  const kernels::PageCopyParams params{
      .parts = {RowsOf(p.parts[0], p.num_heads, spec.vector_size),
                RowsOf(p.parts[1], p.num_heads, spec.vector_size)},
      .batch_indices = p.batch_indices,
      .positions = p.positions,
      .indptr = p.indptr,
      .indices = p.indices,
      .num_tokens = p.num_tokens,
      .page_size = kernels::MakeDivisor(static_cast<uint32_t>(p.page_size))};
  int64_t column_blocks = 0;
  for (const kernels::PageCopyRows& part : params.parts) {
    column_blocks += (part.num_units + NumThreads(spec) - 1) / NumThreads(spec);
  }
  if (column_blocks == 0) return;
  // Few tokens: one a block, to use every multiprocessor.
  if (p.num_tokens < 132 * 2) spec.tokens_tile = 1;
  Launch(jit::GetKernel(spec, p.stream.device),
         {.grid_x = (p.num_tokens + spec.tokens_tile - 1) / spec.tokens_tile,
          .grid_y = column_blocks,
          .overlaps_previous = true},
         params, p.stream);
}

}  // namespace

bool AcceptsPageCopy(const PageCopyProblem& problem, std::string* why) {
  if (!IsOnArch(problem.arch, kernels::PageCopySpec::kMinArch, why)) return false;
  if (problem.dtype == problem.dtype_kv) {
    return SizeBytes(problem.dtype) <= 4 ? true : Refuse(why, "dtype must have at most 4 bytes");
  }
  if (!IsFloat(problem.dtype)) return Refuse(why, "dtype must be dtype_kv, f32, f16 or bf16");
  if (!IsFloat(problem.dtype_kv) && !IsQuantised(problem.dtype_kv)) {
    return Refuse(why, "dtype_kv must be dtype, f32, f16, bf16, e4m3, e5m2 or i8");
  }
  return true;
}

void RunPageAppend(const PageCopyParams& params) { Run(params, false); }
void RunPageGather(const PageCopyParams& params) { Run(params, true); }

}  // namespace flashinfer::cuda
