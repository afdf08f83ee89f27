// SPDX-License-Identifier: Apache-2.0
// Latent attention on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "backends/cpu/attention.h"
#include "backends/cpu/isa.h"
#include "ops/mla.h"

namespace flashinfer::cpu {

/// Rows (heads of tokens) of a piece, keys that are worked on at a time, and rows that lie side by
/// side in packed queries and scores.
inline constexpr int kMlaRowsTile = 128;
inline constexpr int kMlaKvTile = 64;
inline constexpr int kMlaPanel = 64;
inline constexpr int kMlaNumPanels = kMlaRowsTile / kMlaPanel;

/// Words of a key in the packed tile: whole vectors may be written from any word of it.
constexpr int64_t MlaKeyStride(const MlaProblem& p) {
  return (p.head_dim_ckv + p.head_dim_kpe + 31) / 16 * 16;
}

/// Scratch memory of one thread, aligned to 64 bytes. A word is a float, or a pair of bf16 where
/// such are multiplied; then half as many are used.
struct MlaScratch {
  float* q;       ///< [kMlaNumPanels, dims of a key, kMlaPanel]: a word of each row side by side
  float* k;       ///< [kMlaKvTile, MlaKeyStride()]: ckv, then kpe
  float* v;       ///< [kMlaKvTile / 2, padded head_dim_ckv]: pairs of tokens
  float* scores;  ///< [kMlaNumPanels, kMlaKvTile, kMlaPanel]
  float* p;       ///< [kMlaRowsTile, kMlaKvTile]: probabilities
  float* alpha;   ///< [kMlaRowsTile]: what the state before a tile counts after it
  float* begins;  ///< [kMlaRowsTile]: the keys of the tile that each row sees
  float* ends;    ///< [kMlaRowsTile]
  AttentionState state;
  AttentionState folded;  ///< of the splits before, where one lane does several of fixed size
};

/// One piece: packed rows of a request over keys kv_begin to kv_end. Row r is token r / num_heads,
/// head r % num_heads.
struct MlaTask {
  const MlaProblem* problem;
  MlaScratch scratch;
  const char* q_nope;  ///< token 0 of the request
  const char* q_pe;
  const char* ckv;  ///< page 0, token 0
  const char* kpe;
  const float* ckv_scales;  ///< as ckv, or null
  char* out;                ///< as q
  float* lse;               ///< as q, or null
  int64_t q_nope_stride_token, q_nope_stride_head;
  int64_t q_pe_stride_token, q_pe_stride_head;
  int64_t out_stride_token, out_stride_head;
  int64_t lse_stride_token, lse_stride_head;
  int64_t ckv_stride_page, ckv_stride_token;
  int64_t kpe_stride_page, kpe_stride_token;
  int64_t scales_stride_page, scales_stride_token, scales_stride_block;
  int32_t scales_block;  ///< elements of a block
  float ckv_scale;
  float kpe_scale;
  const int32_t* pages;  ///< of the request
  int64_t pages_stride;
  int64_t row_begin, row_end;
  int64_t kv_begin, kv_end;
  int64_t position;               ///< of token 0 among the keys: kv_len - q_len
  const AttentionState* partial;  ///< null: writes out and lse
};

struct MlaKernels {
  void (*run)(const MlaTask& task);
  /// Folds states of the task's rows, in the order of their keys, into the first and writes the
  /// result. Each one is `stride` floats after the one before.
  void (*merge)(const MlaTask& task, const AttentionState& first, int64_t stride, int num_partials);
};

#define FLASHINFER_DECLARE(isa, name)  \
  namespace name {                     \
  extern const MlaKernels kMlaKernels; \
  }
FLASHINFER_FOR_EACH_ISA(FLASHINFER_DECLARE)
#undef FLASHINFER_DECLARE

bool AcceptsMla(const MlaProblem& problem, std::string* why);

/// Workspace of a plan, whatever the lengths of keys.
size_t MlaWorkspaceBytes(const MlaProblem& problem, int64_t max_requests, int64_t max_tokens);

std::unique_ptr<MlaExecutor> MakeMla(const MlaKernels& kernels);

template <const MlaKernels& kKernels>
constexpr MlaEntry MlaEntryOf() {
  return {[] { return MakeMla(kKernels); }, MlaWorkspaceBytes};
}

}  // namespace flashinfer::cpu
