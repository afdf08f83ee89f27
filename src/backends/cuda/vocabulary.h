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

/// Whether a kernel goes over its rows a few times, or searches them again and again.
enum class Passes : uint8_t { kFew, kMany };

/// The tile of rows on a device. A search waits for other blocks more than it computes: many rows
/// are faster with fewer blocks each, also where half of a row is read again from the L2 cache.
/// H200, 2026-11-30, 256 rows of 128256: top-p 184 µs with 4 blocks, 209 with 8; top-k 135 and 180;
/// softmax 92 and 79.
inline kernels::VocabularyTile TileOf(const VocabularyRows& rows, int64_t num_outputs,
                                      const DeviceProperties& device, Passes passes) {
  constexpr int64_t kManyBlocksPerSm = 6;
  const kernels::VocabularyTile tile = kernels::MakeVocabularyTile(rows.vocab_size, device.arch);
  const bool is_many = num_outputs * tile.cluster_size >= kManyBlocksPerSm * device.num_sms;
  if (passes == Passes::kFew || !is_many || tile.reads_again()) return tile;
  return kernels::MakeVocabularyTile(rows.vocab_size, device.arch,
                                     kernels::kMaxVocabularyCluster / 2);
}

/// Gives a spec its tile for `num_outputs` rows, and `params` how rows are shared out.
template <class Spec>
void SetTile(const VocabularyRows& rows, int64_t num_outputs, Device device, Passes passes,
             Spec& spec, kernels::VocabularyRowsParams& params) {
  const kernels::VocabularyTile tile = TileOf(rows, num_outputs, Properties(device), passes);
  spec.block_threads = tile.block_threads;
  spec.cluster_size = tile.cluster_size;
  spec.resident_chunks = tile.resident_chunks;
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
