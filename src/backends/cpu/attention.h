// SPDX-License-Identifier: Apache-2.0
// Decode and prefill attention on the CPU: one executor, which differs in the rows of a piece only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "backends/cpu/isa.h"
#include "ops/attention.h"

namespace flashinfer::cpu {

/// Packed query rows of a piece at most (32 register blocks of 6), and keys that are worked on at a
/// time. Zen 4 (family 25 model 17, 2 threads), 2026-11, prefill of 2048 tokens in bf16: 323
/// GFLOP/s; 96 rows 316, for each packs keys and values again; 288 and 384 the same, and 512 tokens
/// of heads of 64 take 4 and 11 % longer.
inline constexpr int kAttentionRowsTile = 192;
inline constexpr int kAttentionKvTile = 64;
/// Above this many rows of a KV head, packing a tile costs less than it saves.
inline constexpr int kMaxRowsInPlace = 8;

/// Floats of a row in scratch memory: whole vectors of any instruction set, padded with zeros.
constexpr int64_t PaddedDim(int32_t head_dim) { return (head_dim + 31) / 32 * 32; }

/// The running softmax of a piece's rows: o = Σ 2^(s - m) v and l = Σ 2^(s - m).
struct AttentionState {
  float* o;  ///< [kAttentionRowsTile, padded head_dim_vo]
  float* m;  ///< [kAttentionRowsTile], base-2 logarithms; -inf before the first key
  float* l;  ///< [kAttentionRowsTile]
};

/// Scratch memory of one thread, all float32 and aligned to 64 bytes.
struct AttentionScratch {
  float* q;       ///< [kAttentionRowsTile, padded head_dim_qk], or half as many pairs of bf16
  float* k;       ///< [head_dim_qk, kAttentionKvTile]: a tile of keys, transposed
  float* v;       ///< [kAttentionKvTile, padded head_dim_vo]
  float* scores;  ///< [kAttentionRowsTile, kAttentionKvTile], then probabilities
  float* pairs;   ///< [kAttentionRowsTile, kAttentionKvTile / 2]: probabilities as pairs of bf16
  float* alpha;   ///< [kAttentionRowsTile]: what the state before a tile counts after it
  AttentionState state;
  AttentionState folded;  ///< of the splits before, where one lane does several of fixed size
  // With rotation only:
  float* cos;      ///< [kAttentionKvTile, padded head_dim_qk / 2], of a tile's keys
  float* sin;      ///< likewise
  float* rotated;  ///< [kAttentionKvTile, padded head_dim_qk]: the tile's keys, rotated
};

/// A float for each head of the piece; null: all are the same.
struct PerHead {
  const float* data;
  int64_t stride;
};

/// Which keys rows see where more than positions decide: see AttentionMask.
struct AttentionMaskRows {
  const uint8_t* custom;  ///< of the request
  bool is_packed;
  int64_t kv_len;            ///< of the request: keys of a row of `custom`
  const int32_t* token_pos;  ///< of token prefix_len
  int64_t token_pos_stride;
  int64_t prefix_len;
};

/// Bias of the piece's first head and the request's first token.
struct AttentionBiasRows {
  const char* data;
  DType dtype;
  int64_t stride_head, stride_token;
};

/// One piece: packed rows of a request and its KV heads over keys kv_begin to kv_end. Several KV
/// heads go together where each has few rows, so that a token's keys, which are neighbours in
/// memory, are read at the same time.
struct AttentionTask {
  const AttentionProblem* problem;
  AttentionScratch scratch;
  const char* q;  ///< first query head of the piece, token 0 of the request
  const char* k;  ///< first KV head in page 0, token 0
  const char* v;
  char* out;   ///< as q
  float* lse;  ///< as q, or null
  int64_t q_stride_token, q_stride_head;
  int64_t out_stride_token, out_stride_head;
  int64_t lse_stride_token, lse_stride_head;
  PageStrides k_strides, v_strides;
  const int32_t* pages;  ///< of the request
  int64_t pages_stride;
  int64_t page_size;
  int32_t num_kv_heads;  ///< rows are shared out among them, in order
  int32_t num_qo_heads;  ///< of the piece: row r is token r / num_qo_heads, head r % num_qo_heads
  int64_t row_begin, row_end;
  int64_t kv_begin, kv_end;
  int64_t position;  ///< of token 0 among the keys: kv_len - q_len
  bool is_decode;    ///< one token: its rows are always its whole group
  float score_scale;
  float value_scale;
  PerHead q_scales, sinks, slopes;  ///< by query head of the piece
  PerHead k_scales, v_scales;       ///< by KV head of the piece
  AttentionMaskRows mask;
  AttentionBiasRows bias;
  const double* turns_per_position;  ///< [head_dim_qk / 2]: of rotation, for pairs of a head
  const AttentionState* partial;     ///< null: writes out and lse
};

struct AttentionKernels {
  void (*run)(const AttentionTask& task);
  /// Folds states of the task's rows, in the order of their keys, into the first and writes the
  /// result. Each one is `stride` floats after the one before.
  void (*merge)(const AttentionTask& task, const AttentionState& first, int64_t stride,
                int num_partials);
};

#define FLASHINFER_DECLARE(isa, name)              \
  namespace name {                                 \
  extern const AttentionKernels kAttentionKernels; \
  }
FLASHINFER_FOR_EACH_ISA(FLASHINFER_DECLARE)
#undef FLASHINFER_DECLARE

bool AcceptsAttention(const AttentionProblem& problem, std::string* why);

/// Workspace of a plan (any lengths of keys).
size_t AttentionWorkspaceBytes(const AttentionProblem& problem, int64_t max_requests,
                               int64_t max_tokens);

enum class AttentionKind : uint8_t { kDecode, kPrefill };

std::unique_ptr<AttentionExecutor> MakeAttentionWith(const AttentionKernels& kernels,
                                                     AttentionKind kind);

template <const AttentionKernels& kKernels, AttentionKind kKind>
std::unique_ptr<AttentionExecutor> MakeAttention() {
  return MakeAttentionWith(kKernels, kKind);
}

/// For CpuCandidates().
template <AttentionKind kKind>
constexpr std::array<AttentionEntry, 4> AttentionEntries() {
  return {{{MakeAttention<avx512_bf16::kAttentionKernels, kKind>, AttentionWorkspaceBytes},
           {MakeAttention<avx512::kAttentionKernels, kKind>, AttentionWorkspaceBytes},
           {MakeAttention<avx2::kAttentionKernels, kKind>, AttentionWorkspaceBytes},
           {MakeAttention<scalar::kAttentionKernels, kKind>, AttentionWorkspaceBytes}}};
}

}  // namespace flashinfer::cpu
