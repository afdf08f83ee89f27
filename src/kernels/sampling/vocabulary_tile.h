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
/// Chunks of a warp in registers and in shared memory, at most: together, two blocks of 8 warps an
/// SM have 256 KB of f32. Four in registers, where others lie in shared memory, leave too few.
inline constexpr int32_t kMaxResidentChunks = 4;
inline constexpr int32_t kMaxResidentBesideShared = 3;
inline constexpr int32_t kMaxSharedChunks = 5;

struct VocabularyTile {
  int32_t block_threads;
  int32_t cluster_size;     ///< blocks of a row
  int32_t resident_chunks;  ///< of a warp, in registers; 0: none is kept
  int32_t shared_chunks;    ///< of a warp, in shared memory: those after, or on their way
  int32_t chunks_per_warp;  ///< consecutive ones; at least those
  constexpr bool reads_again() const {
    return resident_chunks == 0 || chunks_per_warp > resident_chunks + shared_chunks;
  }
};

/// What a tile is made for.
struct VocabularyTileRequest {
  int64_t vocab_size = 0;
  int32_t arch = 75;     ///< of the device
  bool shares = false;   ///< may keep chunks in shared memory
  bool is_many = false;  ///< many rows: does so before it takes more blocks
};

/// Rows of which nothing is kept: each pass reads them, and there is seldom more than one, by
/// kernels that forecast where a cut is. Several blocks a row only where rows are fewer than SMs:
/// each looks at the whole forecast (H200, 2026-12-01, top-p of 64 rows of 128256: 40 µs by 2
/// blocks, 54 by 4, 73 by 8; of 256 rows 72 by 1). Loads by way of shared memory take 72, of
/// registers 79, and rows of 256 that are kept 130.
constexpr VocabularyTile MakeStreamingTile(const VocabularyTileRequest& r, int64_t num_rows,
                                           int64_t num_sms) {
  const int64_t num_chunks = (r.vocab_size + kChunkElements - 1) / kChunkElements;
  VocabularyTile t{256, 1, 0, 0, 1};
  const auto fits = [&](int32_t size) { return num_rows * size <= num_sms; };
  while (r.arch >= 90 && t.cluster_size < kMaxVocabularyCluster && fits(2 * t.cluster_size)) {
    t.cluster_size *= 2;
  }
  // Two blocks an SM, or one where it has 100 KB.
  const bool has_room = r.arch >= 80 && r.arch < 120;
  if (has_room && r.shares) t.shared_chunks = r.arch < 90 || t.cluster_size > 1 ? 3 : 4;
  const int64_t num_warps = int64_t{t.cluster_size} * t.block_threads / 32;
  t.chunks_per_warp = static_cast<int32_t>((num_chunks + num_warps - 1) / num_warps);
  return t;
}

/// Shorter rows are kept in the registers of one block.
inline constexpr int64_t kMinStreamedVocabulary = 32 * kChunkElements;

/// The tile of rows: whole rows in registers, and in shared memory, as far as a cluster has them.
/// 256 threads with 4 chunks leave room for other values (H200, 2026-11-30, top-p of 64 rows of
/// 128256: 65 µs; 512 with 2 chunks: 91, with 4: 72).
constexpr VocabularyTile MakeVocabularyTile(const VocabularyTileRequest& r) {
  const int64_t num_chunks = (r.vocab_size + kChunkElements - 1) / kChunkElements;
  const bool has_clusters = r.arch >= 90;
  const int32_t most_shared = has_clusters && r.shares ? kMaxSharedChunks : 0;
  const int32_t most_resident = most_shared > 0 ? kMaxResidentBesideShared : kMaxResidentChunks;
  VocabularyTile t{32, 1, 1, 0, 1};
  const auto is_short = [&] {
    const int32_t chunks = t.resident_chunks + t.shared_chunks;
    return int64_t{t.cluster_size} * (t.block_threads / 32) * chunks < num_chunks;
  };
  while (t.block_threads < 256 && is_short()) t.block_threads *= 2;
  while (t.resident_chunks < most_resident && is_short()) ++t.resident_chunks;
  if (is_short()) t.shared_chunks = r.is_many ? most_shared : most_shared > 0 ? 1 : 0;
  while (has_clusters && t.cluster_size < kMaxVocabularyCluster && is_short()) t.cluster_size *= 2;
  while (!has_clusters && t.block_threads < 512 && is_short()) t.block_threads *= 2;
  const int64_t num_warps = int64_t{t.cluster_size} * t.block_threads / 32;
  const auto chunks = static_cast<int32_t>((num_chunks + num_warps - 1) / num_warps);
  t.chunks_per_warp = chunks < t.resident_chunks ? t.resident_chunks : chunks;
  const int32_t more = t.chunks_per_warp - t.resident_chunks;
  t.shared_chunks = more < most_shared ? more : most_shared;
  return t;
}

/// Leaves each thread 64 registers, or 128 for four chunks, and for those that are on their way
/// where none is kept.
constexpr int32_t VocabularyMinBlocks(int32_t block_threads, int32_t resident_chunks) {
  const bool needs_many = resident_chunks > 2 || resident_chunks == 0;
  const int32_t blocks = (needs_many ? 512 : 1024) / block_threads;
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
inline constexpr int32_t kExchangeWords = 5;

/// Shared memory of exchanges: two sets, which are used in turns.
constexpr int32_t ExchangeBytes(int32_t block_threads, int32_t cluster_size) {
  return 2 * (block_threads / 32 + cluster_size) * kExchangeWords * 8;
}

/// Shared memory of the chunks that a block keeps there.
constexpr int32_t SharedChunksBytes(int32_t block_threads, int32_t shared_chunks, DType dtype) {
  return block_threads / 32 * shared_chunks * kChunkElements * (dtype == DType::kF32 ? 4 : 2);
}

/// Values between which a cut was narrowed down, at most, before only they are looked at, and
/// before each is compared with all others.
inline constexpr int32_t kMaxCandidates = 2048;
inline constexpr int32_t kMaxStreamedCandidates = 4096;
inline constexpr int32_t kFewCandidates = 64;
/// Words of the warps of the largest block: two for each of three pivots.
inline constexpr int32_t kMaxCandidateWords = 96;
/// Lists of candidates that a kernel makes, at most: two for each of two searches, and one again.
inline constexpr int32_t kMaxCandidateLists = 8;

/// Shared memory of a search for a cut, a multiple of 16.
constexpr int32_t CutSearchBytes(int32_t resident_chunks, int32_t cluster_size) {
  const bool streams = resident_chunks == 0;
  const int32_t list =
      streams ? kMaxStreamedCandidates * (cluster_size > 1 ? 12 : 8) : kMaxCandidates * 8;
  return list + (kFewCandidates + 1) * 16 + 2 * kMaxCandidateWords * 8 +
         (kMaxCandidateLists + 4) * 4;
}

/// Shared memory of a draw from a row of which nothing is kept.
constexpr int32_t DrawBytes(int32_t block_threads, int32_t resident_chunks) {
  return resident_chunks == 0 ? block_threads / 32 * 16 + 32 : 0;
}

/// Bins of a sample of a row's weights: 16 an octave, from 2^-31 to 2.
inline constexpr int32_t kSampleBins = 512;

/// Shared memory of a sample of a row.
constexpr int32_t SampleBytes(int32_t block_threads, int32_t cluster_size) {
  return kSampleBins * 4 + cluster_size * (kSampleBins / 2) * 4 + block_threads / 32 * 4 * 8;
}

}  // namespace flashinfer::kernels
