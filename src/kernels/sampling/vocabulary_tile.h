// SPDX-License-Identifier: Apache-2.0
// How kernels share out rows of a vocabulary: chunks over warps, warps over a cluster of blocks.
#pragma once

#include "flashinfer/dtype.h"
#include "kernels/portable.h"

namespace flashinfer::kernels {

/// A warp takes a row in chunks; a lane has 16 elements of a chunk. Sums begin with those 16 in
/// f32 and go on as integers: they are the same bits for any number of warps, blocks and rows.
inline constexpr int32_t kLaneElements = 16;
inline constexpr int32_t kChunkElements = 32 * kLaneElements;

/// Blocks of a row, at most: what every device with clusters takes.
inline constexpr int32_t kMaxVocabularyCluster = 8;

struct VocabularyTile {
  int32_t block_threads;
  int32_t cluster_size;     ///< blocks of a row
  int32_t resident_chunks;  ///< of a warp, in registers
  int32_t chunks_per_warp;  ///< consecutive ones; at least those
  constexpr bool reads_again() const { return chunks_per_warp > resident_chunks; }
};

/// The tile of rows of `vocab_size` on a device of compute capability `arch`: whole rows in
/// registers as far as a cluster has them. 256 threads with 4 chunks leave room for other values
/// (H200, 2026-11-30, top-p of 64 rows of 128256: 65 µs; 512 with 2 chunks: 91, with 4: 72).
constexpr VocabularyTile MakeVocabularyTile(int64_t vocab_size, int32_t arch,
                                            int32_t max_cluster = kMaxVocabularyCluster) {
  const int64_t num_chunks = (vocab_size + kChunkElements - 1) / kChunkElements;
  const bool has_clusters = arch >= 90;
  VocabularyTile t{32, 1, 1, 1};
  const auto num_resident = [&] {
    return t.cluster_size * t.block_threads / 32 * t.resident_chunks;
  };
  while (t.block_threads < 256 && num_resident() < num_chunks) t.block_threads *= 2;
  while (t.resident_chunks < 4 && num_resident() < num_chunks) t.resident_chunks *= 2;
  while (has_clusters && t.cluster_size < max_cluster && num_resident() < num_chunks) {
    t.cluster_size *= 2;
  }
  while (!has_clusters && t.block_threads < 512 && num_resident() < num_chunks) {
    t.block_threads *= 2;
  }
  const int64_t num_warps = int64_t{t.cluster_size} * t.block_threads / 32;
  const int64_t chunks = (num_chunks + num_warps - 1) / num_warps;
  t.chunks_per_warp = chunks < t.resident_chunks ? t.resident_chunks : static_cast<int32_t>(chunks);
  return t;
}

/// Leaves each thread 64 registers, or 128 for four chunks.
constexpr int32_t VocabularyMinBlocks(int32_t block_threads, int32_t resident_chunks) {
  const int32_t blocks = (resident_chunks > 2 ? 512 : 1024) / block_threads;
  return blocks < 1 ? 1 : blocks > 16 ? 16 : blocks;
}

/// Rows in memory; the stride counts elements.
struct VocabularyRowsParams {
  const void* data;
  int64_t stride;
  int32_t size;
  int32_t chunks_per_warp;
};

/// A value of each row: `data[row * stride]`, or `value` where data is null.
template <class T>
struct RowValuesParams {
  const T* data;
  int64_t stride;
  T value;
  constexpr T operator[](int64_t row) const { return data == nullptr ? value : data[row * stride]; }
};

/// Where tokens go, and whether rows were distributions (null: not wanted).
struct TokenOutputsParams {
  int32_t* tokens;
  int64_t tokens_stride;
  bool* valid;
  int64_t valid_stride;
};

/// Random words of rows: of a sequence of its own seed, or of subsequence `row` of one seed.
struct RandomParams {
  RowValuesParams<int64_t> seed;
  RowValuesParams<int64_t> offset;
  bool has_own_seeds;
};

/// 64-bit words that the warps of a row exchange at a time, at most.
inline constexpr int32_t kExchangeWords = 4;

/// Shared memory of exchanges: two sets, which are used in turns.
constexpr int32_t ExchangeBytes(int32_t block_threads, int32_t cluster_size) {
  return 2 * (block_threads / 32 + cluster_size) * kExchangeWords * 8;
}

/// Values between which a cut was narrowed down, at most, before they are looked at one by one.
inline constexpr int32_t kMaxCandidates = 512;
/// Three of each warp of the largest block.
inline constexpr int32_t kMaxCandidatePivots = 96;

/// Shared memory of a search for a cut, a multiple of 16.
constexpr int32_t CutSearchBytes() {
  return kMaxCandidates * (4 + 4 + 8) + 2 * (kMaxCandidatePivots + 1) * 8 + 8;
}

}  // namespace flashinfer::kernels
