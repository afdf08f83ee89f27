// SPDX-License-Identifier: Apache-2.0
// What the executors over rows of a vocabulary share on CUDA devices.
#pragma once

#include <algorithm>
#include <string>

#include "backends/cuda/problem.h"
#include "cuda/device.h"
#include "cuda/launch.h"
#include "jit/store.h"
#include "kernels/sampling/vocabulary_tile.h"
#include "ops/sampling.h"

namespace flashinfer::cuda {

bool AcceptsVocabulary(const VocabularyProblem& problem, std::string* why);

template <class T>
kernels::RowValuesParams<T> ParamsOf(const RowValues<T>& values) {
  return {.data = values.data, .stride = values.stride, .value = values.value};
}

inline kernels::TokenOutputsParams ParamsOf(const TokenOutputs& out) {
  return {.tokens = out.tokens,
          .tokens_stride = out.tokens_stride,
          .valid = out.valid,
          .valid_stride = out.valid_stride};
}

/// Elements of an access to rows: such that each access is wholly inside or outside of a row.
inline VectorSize VectorSizeOf(const VocabularyRows& rows) {
  return VectorSize(16 / static_cast<int32_t>(SizeBytes(rows.dtype)))
      .Pointer(rows.data, rows.dtype)
      .Count(rows.stride)
      .Count(rows.vocab_size);
}

/// Whether a kernel goes over its rows once, again and again, or seldom more than once or twice
/// because it forecasts what it looks for.
enum class Passes : uint8_t { kOne, kMany, kForecast };

/// The tile of rows on a device. With more rows than the device takes at once with whole rows in
/// registers, part of each is kept in shared memory: fewer blocks a row, and more rows at a time.
inline kernels::VocabularyTile TileOf(kernels::VocabularyTileRequest request, int64_t num_outputs,
                                      int32_t num_sms) {
  constexpr int64_t kBlocksPerSm = 2;
  const kernels::VocabularyTile tile = kernels::MakeVocabularyTile(request);
  request.is_many = num_outputs * tile.cluster_size > kBlocksPerSm * num_sms;
  return request.is_many ? kernels::MakeVocabularyTile(request) : tile;
}

/// Gives a spec its tile for `num_outputs` rows, and `params` how rows are shared out.
template <class Spec>
void SetTile(const VocabularyRows& rows, int64_t num_outputs, Device device, Passes passes,
             Spec& spec, kernels::VocabularyRowsParams& params) {
  const bool has_whole_accesses =
      spec.vector_size * static_cast<int32_t>(SizeBytes(rows.dtype)) == 16;
  const DeviceProperties& properties = Properties(device);
  const kernels::VocabularyTileRequest request{
      .vocab_size = rows.vocab_size,
      .arch = properties.arch,
      .shares = passes != Passes::kOne && has_whole_accesses};
  const bool streams =
      passes == Passes::kForecast && rows.vocab_size > kernels::kMinStreamedVocabulary;
  const kernels::VocabularyTile tile =
      streams ? kernels::MakeStreamingTile(request, num_outputs, properties.num_sms)
              : TileOf(request, num_outputs, properties.num_sms);
  spec.block_threads = tile.block_threads;
  spec.cluster_size = tile.cluster_size;
  spec.resident_chunks = tile.resident_chunks;
  if constexpr (requires { spec.shared_chunks; }) spec.shared_chunks = tile.shared_chunks;
  spec.reads_again = tile.reads_again();
  params = {.data = rows.data,
            .stride = rows.stride,
            .size = static_cast<int32_t>(rows.vocab_size),
            .chunks_per_warp = tile.chunks_per_warp};
}

/// Whether some row may have the filter.
inline bool HasTopK(const RowValues<int32_t>& top_k, const VocabularyRows& rows) {
  return top_k.data != nullptr || (top_k.value > 0 && top_k.value < rows.vocab_size);
}
inline bool HasTopP(const RowValues<float>& top_p) {
  return top_p.data != nullptr || top_p.value < 1;
}

/// How a kernel with these filters goes over its rows: what a forecast is of.
inline Passes PassesOf(const RowValues<int32_t>& top_k, const RowValues<float>& top_p,
                       const VocabularyRows& rows) {
  if (!HasTopK(top_k, rows)) {
    return HasTopP(top_p) && !rows.are_logits ? Passes::kForecast : Passes::kMany;
  }
  constexpr int32_t kMaxForecastTopK = 1024;
  return top_k.data != nullptr || top_k.value <= kMaxForecastTopK ? Passes::kForecast
                                                                  : Passes::kMany;
}

inline kernels::RandomParams RandomOf(const RowValues<int64_t>& seed,
                                      const RowValues<int64_t>& offset) {
  return {.seed = ParamsOf(seed),
          .offset = ParamsOf(offset),
          .has_own_seeds = seed.data != nullptr && !seed.is_single};
}

template <class Spec>
void LaunchRows(const Spec& spec, int64_t num_rows, const typename Spec::Params& params,
                Stream stream) {
  if (num_rows == 0) return;
  Launch(jit::GetKernel(spec, stream.device),
         {.grid_x = num_rows * spec.cluster_size,
          .cluster_x = spec.cluster_size,
          .overlaps_previous = true},
         params, stream);
}

}  // namespace flashinfer::cuda
