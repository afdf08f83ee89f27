// SPDX-License-Identifier: Apache-2.0
// Which keys of a tile each row of a piece sees, as bits.
#pragma once

#include "backends/cpu/attention.h"

namespace flashinfer::cpu::FLASHINFER_ISA {

class TileMask {
 public:
  TileMask(const AttentionTask& task, int64_t tile_begin, int num_keys)
      : task_(task),
        tile_begin_(tile_begin),
        first_token_(task.row_begin / task.num_qo_heads),
        all_(BitsBelow(num_keys)) {
    is_full_ = IsFull(task, tile_begin, num_keys);
    if (is_full_) return;
    const int64_t last_token = (task.row_end - 1) / task.num_qo_heads;
    uint64_t seen_by_all = all_;
    uint64_t seen_by_any = 0;
    for (int64_t token = first_token_; token <= last_token; ++token) {
      const uint64_t seen = Seen(token);
      tokens_[token - first_token_] = seen;
      seen_by_all &= seen;
      seen_by_any |= seen;
    }
    is_full_ = seen_by_all == all_;
    is_empty_ = seen_by_any == 0;
  }

  /// Whether positions alone say that every row sees every key.
  static bool IsFull(const AttentionTask& task, int64_t tile_begin, int num_keys) {
    const AttentionProblem& p = *task.problem;
    if (p.mask != MaskMode::kNone && p.mask != MaskMode::kCausal) return false;
    const int64_t begin = task.position - tile_begin;
    const int64_t first_token = task.row_begin / task.num_qo_heads;
    const int64_t last_token = (task.row_end - 1) / task.num_qo_heads;
    return (p.mask == MaskMode::kNone || begin + first_token >= num_keys - 1) &&
           (p.window_left < 0 || begin + last_token - p.window_left <= 0);
  }

  /// Whether every row sees every key, or none any.
  bool is_full() const { return is_full_; }
  bool is_empty() const { return is_empty_; }

  /// Bit i: the row sees key i of the tile.
  uint64_t Of(int row) const {
    if (is_full_) return all_;
    return tokens_[(task_.row_begin + row) / task_.num_qo_heads - first_token_];
  }

  /// Keys up to the last one that any of some rows sees.
  int NumKeys(int row, int num_rows) const {
    uint64_t seen = 0;
    if (is_full_) {
      seen = all_;
    } else {
      const int64_t last = (task_.row_begin + row + num_rows - 1) / task_.num_qo_heads;
      for (int64_t token = (task_.row_begin + row) / task_.num_qo_heads; token <= last; ++token) {
        seen |= tokens_[token - first_token_];
      }
    }
    return seen == 0 ? 0 : 64 - __builtin_clzll(seen);
  }

 private:
  /// Bits 0 to n - 1; any n.
  static uint64_t BitsBelow(int64_t n) {
    return n <= 0 ? 0 : n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
  }

  uint64_t Seen(int64_t token) const {
    const AttentionProblem& p = *task_.problem;
    const int64_t position = task_.position + token - tile_begin_;
    uint64_t seen = all_;
    if (p.mask == MaskMode::kCustom) {
      seen &= Custom(token);
    } else if (p.mask != MaskMode::kNone) {
      seen &= BitsBelow(position + 1);
      if (p.mask == MaskMode::kMultiItem) seen &= Items(token);
    }
    if (p.window_left >= 0) seen &= ~BitsBelow(position - p.window_left);
    return seen;
  }

  /// The tile's bits of a row of the custom mask.
  uint64_t Custom(int64_t token) const {
    const AttentionMaskRows& mask = task_.mask;
    const int64_t begin = token * mask.kv_len + tile_begin_;
    const int num_keys = 64 - __builtin_clzll(all_);
    uint64_t bits = 0;
    if (!mask.is_packed) {
      for (int i = 0; i < num_keys; ++i) {
        bits |= uint64_t{mask.custom[begin + i] != 0} << i;
      }
      return bits;
    }
    const int64_t end_byte = (begin + num_keys + 7) / 8;
    int shift = -static_cast<int>(begin % 8);
    for (int64_t at = begin / 8; at < end_byte; ++at, shift += 8) {
      const uint64_t byte = mask.custom[at];
      bits |= shift < 0 ? byte >> -shift : byte << shift;
    }
    return bits;
  }

  /// The prefix, and the keys of the token's own item up to any position.
  uint64_t Items(int64_t token) const {
    const AttentionMaskRows& mask = task_.mask;
    const int64_t position = task_.position + token;
    if (position < mask.prefix_len) return all_;
    const int64_t place = mask.token_pos[(position - mask.prefix_len) * mask.token_pos_stride];
    return BitsBelow(mask.prefix_len - tile_begin_) |
           ~BitsBelow(position - place + 1 - tile_begin_);
  }

  const AttentionTask& task_;
  int64_t tile_begin_;
  int64_t first_token_;
  uint64_t all_;
  bool is_full_ = false;
  bool is_empty_ = false;
  uint64_t tokens_[kAttentionRowsTile];
};

}  // namespace flashinfer::cpu::FLASHINFER_ISA
