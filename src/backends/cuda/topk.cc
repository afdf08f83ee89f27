// SPDX-License-Identifier: Apache-2.0
// Top-k selection on CUDA devices: one launch.
#include "backends/cuda/topk.h"

#include "backends/cuda/vocabulary.h"
#include "kernels/sampling/topk_spec.h"

namespace flashinfer::cuda {
namespace {

/// Longer lists are sorted where they are written.
constexpr int64_t kMaxSharedSort = 4096;

kernels::TopKSpec SpecOf(const TopKParams& p) {
  kernels::TopKSpec spec{.dtype = p.rows.dtype, .vector_size = VectorSizeOf(p.rows).value()};
  // Rows that begin and end anywhere are read element by element.
  if (p.row_starts.data != nullptr || p.row_starts.value != 0 || p.lengths.data != nullptr ||
      p.lengths.value != p.rows.vocab_size) {
    spec.vector_size = 1;
  }
  if (p.sorted && p.k > kMaxSharedSort) spec.sorts_output = true;
  if (p.sorted && p.k <= kMaxSharedSort) {
    spec.sort_size = 64;
    while (spec.sort_size < p.k) spec.sort_size *= 4;
  }
  return spec;
}

kernels::TopKIndexMapParams IndexMapOf(const TopKIndexMap& map) {
  return {.offset = ParamsOf(map.offset),
          .page_table = map.page_table,
          .page_table_row_stride = map.page_table_row_stride,
          .page_table_stride = map.page_table_stride,
          .row_to_request = map.row_to_request.data,
          .row_to_request_stride = map.row_to_request.stride,
          .page_size = map.page_size,
          .requests_are_64_bit = map.row_to_request.is_64_bit};
}

}  // namespace

void RunTopK(const TopKParams& p) {
  if (p.k == 0) return;
  kernels::TopKSpec spec = SpecOf(p);
  kernels::TopKParams params{.rows = {},
                             .row_starts = ParamsOf(p.row_starts),
                             .lengths = ParamsOf(p.lengths),
                             .values = p.values,
                             .values_stride = p.values_stride,
                             .indices = p.indices,
                             .indices_stride = p.indices_stride,
                             .map = IndexMapOf(p.map),
                             .k = static_cast<int32_t>(p.k),
                             .indices_are_64_bit = p.indices_are_64_bit,
                             .takes_highest = p.tie_break == TieBreak::kHighestIndex};
  constexpr int64_t kMaxForecast = 1024;
  SetTile(p.rows, p.rows.num_rows, p.stream.device,
          p.k <= kMaxForecast ? Passes::kForecast : Passes::kMany, spec, params.rows);
  LaunchRows(spec, p.rows.num_rows, params, p.stream);
}

}  // namespace flashinfer::cuda
