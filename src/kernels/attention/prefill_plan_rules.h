// SPDX-License-Identifier: Apache-2.0
// How rows and keys of prefill are cut into pieces: the rules that plans of the host and of kernels
// follow alike.
#pragma once

#include "kernels/portable.h"

namespace flashinfer::kernels {

/// What the executor wants pieces to be like.
struct AttentionPlanLimits {
  int32_t rows_tile = 64;      ///< packed rows of a piece at most
  int32_t kv_tile = 64;        ///< pieces begin at multiples of it
  int32_t num_lanes = 1;       ///< pieces that run at the same time
  int32_t min_kv_chunk = 128;  ///< keys of a split piece at least
  /// Splits are made every so many keys, whatever the batch; 0: as balance wants. Without room for
  /// its splits a tile becomes one piece, which then folds them itself.
  int32_t fixed_kv_chunk = 0;
  /// Pieces that run at the same time, of all heads, where equal tiles are to become equal pieces
  /// that keep all of them busy to the end; 0: they are cut like others.
  int32_t num_slots = 0;
  int32_t num_heads = 1;  ///< that all pieces are run for, as num_slots counts
  /// Pieces that may leave partial results; 0: no splitting. Behind the first tile whose splits do
  /// not fit, none is split.
  int64_t max_partials = 0;
};

/// Pieces per lane that a batch is cut into where it is cut at all: enough that the last one to
/// finish does not keep the others waiting for long.
inline constexpr int64_t kPiecesPerLane = 8;

/// Partial results that a plan without limit on them may use. A tile of cost c is split into
/// n <= c / target + 1 pieces, and n >= 2 means c > target, so all n together are below twice the
/// total over the target. Some more, so that equal tiles fit in.
constexpr int64_t MaxPartials(int32_t num_lanes) {
  return num_lanes == 1 ? 0 : 2 * (kPiecesPerLane + 1) * num_lanes;
}

template <class Int>
constexpr Int CeilDiv(Int a, Int b) {
  return (a + b - 1) / b;
}

/// A request, as far as its pieces depend on it. Row r is query head r % group_size of a KV head's
/// group, of token r / group_size. `Int` holds the number of rows, and of keys: kernels count in 32
/// bits.
template <class Int>
struct AttentionRows {
  Int q_len;
  Int kv_len;
  int32_t group_size;
  bool causal;
  int32_t window_left;  ///< keys left of its own position that a query sees; -1: all

  constexpr Int num_rows() const { return q_len * group_size; }
};

template <class Int>
struct AttentionKeys {
  Int begin;
  Int end;
};

/// Keys that any of the rows row_begin to row_end may see; the begin is rounded down to a tile.
template <class Int>
constexpr AttentionKeys<Int> SeenKeys(const AttentionRows<Int>& rows, int32_t kv_tile,
                                      Int row_begin, Int row_end) {
  const Int offset = rows.kv_len - rows.q_len;
  const auto limited = [](Int x, Int most) { return x < 0 ? 0 : x > most ? most : x; };
  AttentionKeys<Int> keys{0, rows.kv_len};
  if (rows.causal) {
    keys.end = limited(offset + (row_end - 1) / rows.group_size + 1, rows.kv_len);
  }
  if (rows.window_left >= 0) {
    const Int position = offset + row_begin / rows.group_size;
    // Without a difference that might be below what Int holds.
    const Int first = position < rows.window_left ? 0 : position - rows.window_left;
    keys.begin = limited(first, keys.end);
    keys.begin -= keys.begin % kv_tile;
  }
  return keys;
}

/// Time of a piece: reading a key costs as much as multiplying it with this many rows.
inline constexpr int64_t kRowsOfReading = 8;

constexpr int64_t AttentionCost(int64_t num_rows, int64_t num_keys) {
  return (kRowsOfReading + num_rows) * num_keys;
}

/// What all tiles of a batch cost.
struct AttentionTotals {
  int64_t num_tiles = 0;
  int64_t cost = 0;
  int64_t largest = 0;  ///< of a tile
};

/// Keys that a piece could read while it starts and ends.
inline constexpr int64_t kKeysOfOverhead = 128;

/// Which tiles of a batch are cut.
struct AttentionCut {
  int64_t target;      ///< what a piece should cost
  int32_t first_tile;  ///< those before it are not cut
};

/// Equal tiles: all are cut, or only those that are left when all others fill all slots a whole
/// number of times, into as many as fill all slots a whole number of times again; what ends first.
constexpr AttentionCut EvenCut(const AttentionPlanLimits& limits, const AttentionTotals& t) {
  const int64_t overhead = AttentionCost(limits.rows_tile, kKeysOfOverhead);
  const int64_t full_turns = t.num_tiles * limits.num_heads / limits.num_slots;
  const int64_t num_whole = full_turns * limits.num_slots / limits.num_heads;
  AttentionCut cut{t.largest, 0};
  int64_t best =
      CeilDiv<int64_t>(t.num_tiles * limits.num_heads, limits.num_slots) * (t.largest + overhead);
  for (int i = 0; i < 2; ++i) {
    const int64_t first = i == 0 ? 0 : num_whole;
    const int64_t num_tiles = t.num_tiles - first;
    if (num_tiles == 0) continue;
    const int64_t num_copies = num_tiles * limits.num_heads;
    const int64_t start = first == 0 ? 0 : full_turns * (t.largest + overhead);
    const int64_t least = CeilDiv<int64_t>(num_copies, limits.num_slots);
    for (int64_t turns = least; turns < least + 8; ++turns) {
      const int64_t chunks = turns * limits.num_slots / num_copies;
      if (chunks * num_tiles > limits.max_partials) break;
      const int64_t cost = CeilDiv(t.largest, chunks);
      if (start + turns * (cost + overhead) >= best) continue;
      best = start + turns * (cost + overhead);
      cut = {cost, static_cast<int32_t>(first)};
    }
  }
  return cut;
}

/// Which tiles of this batch are cut.
constexpr AttentionCut CutOf(const AttentionPlanLimits& limits, const AttentionTotals& t) {
  const bool is_even = limits.num_slots > 0 && limits.fixed_kv_chunk == 0 &&
                       t.largest * t.num_tiles <= t.cost + t.cost / 8;
  if (is_even && t.cost > 0) return EvenCut(limits, t);
  const int64_t target = t.cost / (kPiecesPerLane * limits.num_lanes);
  return {target > 1 ? target : 1, 0};
}

/// Pieces that a tile is cut into, at most; below 2: none.
template <class Int>
constexpr Int MaxChunks(const AttentionPlanLimits& limits, const AttentionKeys<Int>& keys,
                        int64_t cost, const AttentionCut& cut, int64_t tile) {
  const Int num_keys = keys.end - keys.begin;
  if (tile < cut.first_tile) return 1;
  if (const Int size = limits.fixed_kv_chunk; size > 0) {
    return CeilDiv(keys.end, size) - keys.begin / size;
  }
  if (num_keys <= limits.kv_tile) return 1;
  const Int most = num_keys / (limits.min_kv_chunk > 1 ? limits.min_kv_chunk : 1);
  const int64_t wanted = CeilDiv(cost, cut.target);
  return wanted < most ? static_cast<Int>(wanted) : most;
}

/// Where the piece from key `begin` on ends, with so many that are left. Pieces become smaller
/// until each lane's share of the rest is one: large ones run without interruption, and small ones
/// at the end let all lanes finish together.
template <class Int>
constexpr Int ChunkEnd(const AttentionPlanLimits& limits, Int begin, Int end, Int num_chunks_left) {
  Int size = limits.fixed_kv_chunk;
  Int chunk_end = 0;
  if (size > 0) {
    chunk_end = (begin / size + 1) * size;
  } else {
    const Int most = Int{2} * limits.num_lanes;
    size = CeilDiv(end - begin, num_chunks_left < most ? num_chunks_left : most);
    if (size < limits.min_kv_chunk) size = limits.min_kv_chunk;
    chunk_end = begin + CeilDiv<Int>(size, limits.kv_tile) * limits.kv_tile;
  }
  return chunk_end < end ? chunk_end : end;
}

/// Pieces that a tile is cut into, of at most `max_chunks`.
template <class Int>
constexpr int32_t NumChunks(const AttentionPlanLimits& limits, const AttentionKeys<Int>& keys,
                            Int max_chunks) {
  if (max_chunks < 2) return 1;
  int32_t count = 0;
  for (Int begin = keys.begin; begin < keys.end; ++count) {
    begin = ChunkEnd<Int>(limits, begin, keys.end, max_chunks - count);
  }
  return count;
}

}  // namespace flashinfer::kernels
