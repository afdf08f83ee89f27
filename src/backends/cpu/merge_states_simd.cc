// SPDX-License-Identifier: Apache-2.0
// Merging the attention states of each row, in their order. Bound by memory.
#include "backends/cpu/merge_states.h"
#include "backends/cpu/simd/simd.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

constexpr float kMinusInfinity = -__builtin_inff();
/// Columns that are summed before the next ones: most heads are no wider.
constexpr int kColumns = 256;

float Exp2Of(float x) {
  float lanes[F32::kWidth];
  Store(lanes, Exp2(F32::Set(x)));
  return lanes[0];
}

/// The states of one row.
template <class T>
struct Row {
  const T* v;
  const float* s;
  int64_t v_stride;
  int64_t s_stride;
  int64_t count;
};

/// Σ weight · v of columns of the row, where weight = 2^(s - max) / sum. A state of weight 0 is
/// left out, whatever its values.
template <class T>
void MergeColumns(const Row<T>& row, int64_t first, int size, float max, float sum, T* out) {
  constexpr int kWidth = F32::kWidth;
  float total[kColumns];
  for (int i = 0; i < size; i += kWidth) Store(total + i, F32::Set(0.0f));
  for (int64_t k = 0; k < row.count; ++k) {
    const float weight = Exp2Of(row.s[k * row.s_stride] - max) / sum;
    if (weight == 0) continue;
    const T* v = row.v + k * row.v_stride + first;
    for (int i = 0; i < size; i += kWidth) {
      const int n = size - i < kWidth ? size - i : kWidth;
      Store(total + i, Fma(Load(v + i, n), F32::Set(weight), Load(total + i)));
    }
  }
  for (int i = 0; i < size; i += kWidth) {
    Store(out + first + i, Load(total + i), size - i < kWidth ? size - i : kWidth);
  }
}

template <class T>
void Rows(const MergeStatesParams& p, int64_t begin, int64_t end) {
  for (int64_t at = begin; at < end; ++at) {
    const int64_t token = at / p.num_heads;
    const int64_t head = at % p.num_heads;
    const int64_t first = p.indptr == nullptr ? 0 : p.indptr[token * p.indptr_stride];
    const Row<T> row{
        static_cast<const T*>(p.states.v) + token * p.states.v_stride_token +
            head * p.states.v_stride_head + first * p.v_stride_state,
        p.states.s + token * p.states.s_stride_token + head * p.states.s_stride_head +
            first * p.s_stride_state,
        p.v_stride_state, p.s_stride_state,
        p.indptr == nullptr ? p.num_states : p.indptr[(token + 1) * p.indptr_stride] - first};
    float max = kMinusInfinity;
    for (int64_t k = 0; k < row.count; ++k) {
      const float s = row.s[k * row.s_stride];
      if (s > max) max = s;
    }
    float sum = 0;
    if (max != kMinusInfinity) {
      for (int64_t k = 0; k < row.count; ++k) sum += Exp2Of(row.s[k * row.s_stride] - max);
    }
    T* out = static_cast<T*>(p.merged.v) + token * p.merged.v_stride_token +
             head * p.merged.v_stride_head;
    const Row<T> live = max == kMinusInfinity ? Row<T>{} : row;
    for (int64_t i = 0; i < p.head_dim; i += kColumns) {
      const int64_t left = p.head_dim - i;
      MergeColumns(live, i, left < kColumns ? static_cast<int>(left) : kColumns, max, sum, out);
    }
    p.merged.s[token * p.merged.s_stride_token + head * p.merged.s_stride_head] =
        max == kMinusInfinity ? max : max + __builtin_log2f(sum);
  }
}

}  // namespace

void MergeStatesRows(const MergeStatesParams& p, int64_t begin, int64_t end) {
  if (p.dtype == DType::kF32) return Rows<float>(p, begin, end);
  if (p.dtype == DType::kF16) return Rows<F16>(p, begin, end);
  Rows<BF16>(p, begin, end);
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
