// SPDX-License-Identifier: Apache-2.0
// Decode and prefill attention on the CPU: one executor, which differs in the rows of a piece only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "backends/cpu/isa.h"
#include "ops/attention.h"

namespace flashinfer::cpu {

/// Packed query rows of a piece at most, and keys that are worked on at a time.
inline constexpr int kAttentionRowsTile = 64;
inline constexpr int kAttentionKvTile = 64;

/// Scratch memory of one thread, all float32 and aligned to 64 bytes.
struct AttentionScratch {
  float* q;            ///< [kAttentionRowsTile, head_dim_qk], times sm_scale · log2 e
  float* k;            ///< [head_dim_qk, kAttentionKvTile]: a tile of keys, transposed
  float* v;            ///< [kAttentionKvTile, head_dim_vo]
  float* scores;       ///< [kAttentionRowsTile, kAttentionKvTile]
  float* sums;         ///< [4, 16, 16]: products before they are added up
  float* out;          ///< [kAttentionRowsTile, head_dim_vo], not yet normalised
  float* max;          ///< [kAttentionRowsTile], base-2 logarithm
  float* denominator;  ///< [kAttentionRowsTile]
};

/// One piece: packed rows of a request and KV head over keys kv_begin to kv_end.
struct AttentionTask {
  const AttentionProblem* problem;
  AttentionScratch scratch;
  const char* q;  ///< first query head of the group, token 0 of the request
  const char* k;  ///< the KV head in page 0, token 0
  const char* v;
  char* out;   ///< as q
  float* lse;  ///< as q, or null
  int64_t q_stride_token, q_stride_head;
  int64_t out_stride_token, out_stride_head;
  int64_t lse_stride_token, lse_stride_head;
  PageStrides k_strides, v_strides;
  const int32_t* pages;  ///< of the request
  int64_t pages_stride;
  int64_t row_begin, row_end;
  int64_t kv_begin, kv_end;
  /// Token i sees keys below visible + i.
  int64_t visible;
  /// [rows, head_dim_vo + 2]: output times denominator, max, denominator; null: writes out and lse.
  float* partial;
};

/// Adds up partial results of the task's rows: num_partials blocks of kAttentionRowsTile rows.
struct AttentionKernels {
  void (*run)(const AttentionTask& task);
  void (*merge)(const AttentionTask& task, const float* partials, int64_t partial_stride,
                int num_partials);
};

#define FLASHINFER_DECLARE(isa, name)              \
  namespace name {                                 \
  extern const AttentionKernels kAttentionKernels; \
  }
FLASHINFER_FOR_EACH_ISA(FLASHINFER_DECLARE)
#undef FLASHINFER_DECLARE

bool AcceptsAttention(const AttentionProblem& problem, std::string* why);

/// Workspace of a plan for up to `max_tokens` query tokens (any lengths of keys).
size_t AttentionWorkspaceBytes(const AttentionProblem& problem, int64_t max_tokens);

std::unique_ptr<AttentionExecutor> MakeAttentionWith(const AttentionKernels& kernels);

template <const AttentionKernels& kKernels>
std::unique_ptr<AttentionExecutor> MakeAttention() {
  return MakeAttentionWith(kKernels);
}

}  // namespace flashinfer::cpu
