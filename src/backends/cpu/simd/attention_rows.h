// SPDX-License-Identifier: Apache-2.0
// Rows of a piece: queries in, results out.
#pragma once

#include "backends/cpu/attention.h"
#include "backends/cpu/simd/attention_rotation.h"
#include "backends/cpu/simd/attention_softmax.h"

namespace flashinfer::cpu::FLASHINFER_ISA {

template <class Visit>
inline void VisitFloatType(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::kF32:
      return visit(float{});
    case DType::kF16:
      return visit(F16{});
    case DType::kE4M3:
      return visit(E4M3{});
    case DType::kE5M2:
      return visit(E5M2{});
    default:
      return visit(BF16{});
  }
}

inline int VectorPart(int size, int begin) {
  return size - begin < F32::kWidth ? size - begin : F32::kWidth;
}

inline float ValueOf(const PerHead& values, int64_t head, float otherwise) {
  return values.data == nullptr ? otherwise : values.data[head * values.stride];
}

/// Which query head of the piece a row is, and which KV head it reads.
inline int64_t HeadOf(const AttentionTask& task, int64_t row) { return row % task.num_qo_heads; }
inline int64_t KvHeadOf(const AttentionTask& task, int64_t row) {
  return HeadOf(task, row) * task.num_kv_heads / task.num_qo_heads;
}

/// Fills scratch.q with the piece's queries as floats, rotated where the problem says so, or as
/// they are where they are bf16 that is multiplied in pairs.
inline void LoadQueries(const AttentionTask& task, bool as_pairs) {
  const int size = task.problem->head_dim_qk;
  const bool rotates = task.problem->pos_encoding == PositionEncoding::kRopeLlama;
  int64_t angles_of = -1;  // the token whose angles are in scratch
  float* to = task.scratch.q;
  VisitFloatType(task.problem->dtype_q, [&]<class Q>(Q) {
    for (int64_t row = task.row_begin; row < task.row_end; ++row, to += PaddedDim(size)) {
      const int64_t token = row / task.num_qo_heads;
      const Q* from = reinterpret_cast<const Q*>(task.q) + token * task.q_stride_token +
                      HeadOf(task, row) * task.q_stride_head;
      if (as_pairs) {
        __builtin_memcpy(to, from, static_cast<size_t>(size) * sizeof(Q));
        continue;
      }
      if (rotates) {
        if (angles_of != token) {
          FillAngles(task.turns_per_position, task.position + token, size / 2, task.scratch.cos,
                     task.scratch.sin);
        }
        angles_of = token;
        Rotate(from, size / 2, task.scratch.cos, task.scratch.sin, to);
        continue;
      }
      for (int i = 0; i < size; i += F32::kWidth) {
        Store(to + i, Load(from + i, VectorPart(size, i)));
      }
    }
  });
}

/// What a row's weighted values are divided by and multiplied with, and its lse.
struct RowResult {
  float sum;
  float factor;
  float lse;
};

inline RowResult ResultOf(const AttentionTask& task, int64_t row, float m, float l) {
  if (l == 0) return {1, 0, kMinusInf};
  float factor = 1;
  if (task.sinks.data != nullptr) {
    const float sink = ValueOf(task.sinks, HeadOf(task, row), 0) * kLog2E;
    const float largest = sink > m ? sink : m;
    factor = Weight(m, largest);
    l = l * factor + Weight(sink, largest);
    m = largest;
  }
  factor *= task.value_scale * ValueOf(task.v_scales, KvHeadOf(task, row), 1);
  return {l, factor, m + __builtin_log2f(l)};
}

inline void StoreResult(const AttentionTask& task, const AttentionState& state) {
  const int size = task.problem->head_dim_vo;
  VisitFloatType(task.problem->dtype_out, [&]<class O>(O) {
    const float* o = state.o;
    for (int64_t row = task.row_begin; row < task.row_end; ++row, o += PaddedDim(size)) {
      const int64_t r = row - task.row_begin;
      const RowResult result = ResultOf(task, row, state.m[r], state.l[r]);
      const int64_t token = row / task.num_qo_heads;
      const int64_t head = HeadOf(task, row);
      O* to = reinterpret_cast<O*>(task.out) + token * task.out_stride_token +
              head * task.out_stride_head;
      for (int i = 0; i < size; i += F32::kWidth) {
        const F32 x = state.l[r] == 0
                          ? F32::Set(0.0f)
                          : Load(o + i) / F32::Set(result.sum) * F32::Set(result.factor);
        Store(to + i, x, VectorPart(size, i));
      }
      if (task.lse != nullptr) {
        task.lse[token * task.lse_stride_token + head * task.lse_stride_head] = result.lse;
      }
    }
  });
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
