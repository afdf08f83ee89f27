// SPDX-License-Identifier: Apache-2.0
// One piece of attention: packed query rows over a run of keys, with an online softmax.
//
// Keys and values go by in tiles of 64. Few rows (decode: the query heads of a group) read them as
// they are stored and are bound by memory; many rows (prefill) first widen a tile to float32, keys
// transposed, and are bound by multiplication. Keys that a row may not see are left out of every
// sum, not multiplied by zero: they may hold anything.
#include "backends/cpu/attention.h"
#include "backends/cpu/simd/simd.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

constexpr int kWidth = F32::kWidth;
constexpr int kKvTile = kAttentionKvTile;
constexpr int kFewRows = 8;
constexpr float kMinusInfinity = -__builtin_inff();

template <class T>
struct KvTile {
  const T* k[kKvTile];
  const T* v[kKvTile];
  int size;
};

template <class T>
void FindTile(const AttentionTask& task, int64_t begin, int size, KvTile<T>& tile) {
  const int64_t page_size = task.problem->page_size;
  int64_t page_index = begin / page_size;
  int64_t slot = begin % page_size;
  tile.size = size;
  for (int i = 0; i < size;) {
    const int64_t page = task.pages[page_index * task.pages_stride];
    const T* k = reinterpret_cast<const T*>(task.k) + page * task.k_strides.page;
    const T* v = reinterpret_cast<const T*>(task.v) + page * task.v_strides.page;
    for (; slot < page_size && i < size; ++slot, ++i) {
      tile.k[i] = k + slot * task.k_strides.token;
      tile.v[i] = v + slot * task.v_strides.token;
    }
    slot = 0;
    ++page_index;
  }
}

// ---- Queries ----

template <class Q>
void LoadQuery(const AttentionTask& task, int num_rows) {
  const int dim = task.problem->head_dim_qk;
  const int group = task.problem->num_qo_heads / task.problem->num_kv_heads;
  const F32 scale = F32::Set(task.problem->sm_scale * kLog2E);
  for (int r = 0; r < num_rows; ++r) {
    const int64_t row = task.row_begin + r;
    const Q* q = reinterpret_cast<const Q*>(task.q) + row / group * task.q_stride_token +
                 row % group * task.q_stride_head;
    float* out = task.scratch.q + r * dim;
    for (int d = 0; d < dim; d += kWidth) {
      const int n = dim - d < kWidth ? dim - d : kWidth;
      Store(out + d, Load(q + d, n) * scale, n);
    }
  }
}

// ---- Scores of few rows: dot products with keys as stored ----

#if defined(__AVX512F__)
/// out[i] = sum of the 16 floats at rows + 16 i.
inline void SumRows16(const float* rows, float* out) {
  __m512 x[16];
  for (int i = 0; i < 16; ++i) x[i] = _mm512_load_ps(rows + 16 * i);
  // Four rounds, each halving the number of vectors: lane l of the result is row l's sum.
  __m512 y[8];
  for (int i = 0; i < 8; ++i) {
    y[i] = _mm512_add_ps(_mm512_unpacklo_ps(x[2 * i], x[2 * i + 1]),
                         _mm512_unpackhi_ps(x[2 * i], x[2 * i + 1]));
  }
  __m512 z[4];
  for (int i = 0; i < 4; ++i) {
    const __m512d a = _mm512_castps_pd(y[2 * i]);
    const __m512d b = _mm512_castps_pd(y[2 * i + 1]);
    z[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
                         _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
  }
  __m512 w[2];
  for (int i = 0; i < 2; ++i) {
    w[i] = _mm512_add_ps(_mm512_shuffle_f32x4(z[2 * i], z[2 * i + 1], 0x88),
                         _mm512_shuffle_f32x4(z[2 * i], z[2 * i + 1], 0xdd));
  }
  _mm512_storeu_ps(out, _mm512_add_ps(_mm512_shuffle_f32x4(w[0], w[1], 0x88),
                                      _mm512_shuffle_f32x4(w[0], w[1], 0xdd)));
}
#else
inline void SumRows16(const float* rows, float* out) {
  for (int i = 0; i < 16; ++i) out[i] = Sum(Load(rows + 16 * i));
}
#endif

template <class T, int kRows>
void DotRows(const AttentionTask& task, const KvTile<T>& tile, int first_row) {
  const int dim = task.problem->head_dim_qk;
  const float* q = task.scratch.q + first_row * dim;
  float* sums = task.scratch.sums;
  for (int begin = 0; begin < tile.size; begin += 16) {
    const int count = tile.size - begin < 16 ? tile.size - begin : 16;
    for (int i = 0; i < count; ++i) {
      const T* k = tile.k[begin + i];
      F32 acc[kRows];
      for (F32& a : acc) a = F32::Set(0.0f);
      int d = 0;
      for (; d + kWidth <= dim; d += kWidth) {
        const F32 key = Load(k + d);
        for (int r = 0; r < kRows; ++r) acc[r] = Fma(Load(q + r * dim + d), key, acc[r]);
      }
      if (d < dim) {
        const F32 key = Load(k + d, dim - d);
        for (int r = 0; r < kRows; ++r) acc[r] = Fma(Load(q + r * dim + d, dim - d), key, acc[r]);
      }
      for (int r = 0; r < kRows; ++r) Store(sums + (r * 16 + i) * 16, acc[r]);
    }
    // Slots beyond `count` hold older sums, which nobody reads.
    for (int r = 0; r < kRows; ++r) {
      SumRows16(sums + r * 256, task.scratch.scores + (first_row + r) * kKvTile + begin);
    }
  }
}

template <class T>
void ScoresOfFewRows(const AttentionTask& task, const KvTile<T>& tile, int num_rows) {
  int r = 0;
  for (; r + 4 <= num_rows; r += 4) DotRows<T, 4>(task, tile, r);
  switch (num_rows - r) {
    case 1:
      return DotRows<T, 1>(task, tile, r);
    case 2:
      return DotRows<T, 2>(task, tile, r);
    case 3:
      return DotRows<T, 3>(task, tile, r);
    default:
      return;
  }
}

// ---- Sums of many rows: c[r] = (init ? 0 : c[r]) + Σ_k a[r][k] · b[k] ----

/// `row(k)` is where b's row k begins; kRows x kVectors accumulators stay in registers.
template <int kRows, int kVectors, class Row>
inline void Multiply(const float* a, int a_stride, int size, Row&& row, float* c, int c_stride,
                     bool init) {
  F32 acc[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      acc[r][v] = init ? F32::Set(0.0f) : Load(c + r * c_stride + v * kWidth);
    }
  }
  for (int k = 0; k < size; ++k) {
    const auto* b = row(k);
    F32 values[kVectors];
    for (int v = 0; v < kVectors; ++v) values[v] = Load(b + v * kWidth);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const F32 x = F32::Set(a[r * a_stride + k]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) acc[r][v] = Fma(x, values[v], acc[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) Store(c + r * c_stride + v * kWidth, acc[r][v]);
  }
}

template <int kCount>
struct Vectors {
  static constexpr int kValue = kCount;
};

/// As Multiply() over `count` <= 8 rows and `width` columns, a multiple of 8.
template <class T, class Row>
void MultiplyRows(const float* a, int a_stride, int count, int size, Row&& row, float* c,
                  int c_stride, int width, bool init) {
  const auto columns = [&](auto vectors, int column) {
    constexpr int kVectors = decltype(vectors)::kValue;
    const auto shifted = [&](int k) { return row(k) + column; };
    switch (count) {
      case 1:
        return Multiply<1, kVectors>(a, a_stride, size, shifted, c + column, c_stride, init);
      case 2:
        return Multiply<2, kVectors>(a, a_stride, size, shifted, c + column, c_stride, init);
      case 3:
        return Multiply<3, kVectors>(a, a_stride, size, shifted, c + column, c_stride, init);
      case 4:
        return Multiply<4, kVectors>(a, a_stride, size, shifted, c + column, c_stride, init);
      case 5:
        return Multiply<5, kVectors>(a, a_stride, size, shifted, c + column, c_stride, init);
      case 6:
        return Multiply<6, kVectors>(a, a_stride, size, shifted, c + column, c_stride, init);
      case 7:
        return Multiply<7, kVectors>(a, a_stride, size, shifted, c + column, c_stride, init);
      default:
        return Multiply<8, kVectors>(a, a_stride, size, shifted, c + column, c_stride, init);
    }
  };
  int column = 0;
  for (; column + 2 * kWidth <= width; column += 2 * kWidth) columns(Vectors<2>{}, column);
  for (; column + kWidth <= width; column += kWidth) columns(Vectors<1>{}, column);
  if (column == width) return;
  const int n = width - column;  // half a vector, where a vector is 16 floats
  for (int r = 0; r < count; ++r) {
    float* at = c + r * c_stride + column;
    F32 acc = init ? F32::Set(0.0f) : Load(at, n);
    for (int k = 0; k < size; ++k) {
      acc = Fma(F32::Set(a[r * a_stride + k]), Load(row(k) + column, n), acc);
    }
    Store(at, acc, n);
  }
}

// ---- Scores of many rows ----

#if defined(__AVX512F__)
/// Transposes 16 x 16 floats: out[j * out_stride + i] = in[i][j].
inline void Transpose16(const F32 (&in)[16], float* out, int out_stride) {
  __m512 a[16];
  __m512 b[16];
  for (int i = 0; i < 8; ++i) {
    a[2 * i] = _mm512_unpacklo_ps(in[2 * i].v, in[2 * i + 1].v);
    a[2 * i + 1] = _mm512_unpackhi_ps(in[2 * i].v, in[2 * i + 1].v);
  }
  for (int i = 0; i < 4; ++i) {
    for (int h = 0; h < 2; ++h) {
      const __m512d x = _mm512_castps_pd(a[4 * i + h]);
      const __m512d y = _mm512_castps_pd(a[4 * i + 2 + h]);
      b[4 * i + 2 * h] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
      b[4 * i + 2 * h + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
    }
  }
  // b[4 i + c] holds, in its four 128-bit parts, columns c, 4 + c, 8 + c, 12 + c of rows 4i..4i+3.
  for (int c = 0; c < 4; ++c) {
    const __m512 low01 = _mm512_shuffle_f32x4(b[c], b[4 + c], 0x44);
    const __m512 high01 = _mm512_shuffle_f32x4(b[c], b[4 + c], 0xee);
    const __m512 low23 = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0x44);
    const __m512 high23 = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0xee);
    _mm512_storeu_ps(out + c * out_stride, _mm512_shuffle_f32x4(low01, low23, 0x88));
    _mm512_storeu_ps(out + (4 + c) * out_stride, _mm512_shuffle_f32x4(low01, low23, 0xdd));
    _mm512_storeu_ps(out + (8 + c) * out_stride, _mm512_shuffle_f32x4(high01, high23, 0x88));
    _mm512_storeu_ps(out + (12 + c) * out_stride, _mm512_shuffle_f32x4(high01, high23, 0xdd));
  }
}
#endif

/// Keys of the tile as [head_dim_qk, kKvTile] floats.
template <class T>
void TransposeKeys(const AttentionTask& task, const KvTile<T>& tile) {
  const int dim = task.problem->head_dim_qk;
  float* out = task.scratch.k;
#if defined(__AVX512F__)
  for (int begin = 0; begin < tile.size; begin += 16) {
    for (int d = 0; d < dim; d += 16) {
      F32 rows[16];
      const int n = dim - d < 16 ? dim - d : 16;
      for (int i = 0; i < 16; ++i) {
        rows[i] = begin + i < tile.size ? Load(tile.k[begin + i] + d, n) : F32::Set(0.0f);
      }
      if (n == 16) {
        Transpose16(rows, out + d * kKvTile + begin, kKvTile);
      } else {
        float square[256];
        Transpose16(rows, square, 16);
        for (int j = 0; j < n; ++j) Store(out + (d + j) * kKvTile + begin, Load(square + 16 * j));
      }
    }
  }
#else
  for (int i = 0; i < tile.size; ++i) {
    for (int d = 0; d < dim; ++d) out[d * kKvTile + i] = ToFloat(tile.k[i][d]);
  }
  // Columns up to a whole vector are multiplied too; their sums are not read, but must not trap.
  for (int i = tile.size; i % kWidth != 0; ++i) {
    for (int d = 0; d < dim; ++d) out[d * kKvTile + i] = 0.0f;
  }
#endif
}

template <class T>
void ScoresOfManyRows(const AttentionTask& task, const KvTile<T>& tile, int num_rows) {
  const int dim = task.problem->head_dim_qk;
  TransposeKeys(task, tile);
  const float* keys = task.scratch.k;
  const int width = (tile.size + kWidth - 1) / kWidth * kWidth;
  for (int r = 0; r < num_rows; r += kFewRows) {
    const int count = num_rows - r < kFewRows ? num_rows - r : kFewRows;
    MultiplyRows<float>(
        task.scratch.q + r * dim, dim, count, dim, [&](int d) { return keys + d * kKvTile; },
        task.scratch.scores + r * kKvTile, kKvTile, width, true);
  }
}

// ---- Softmax ----

/// Turns the first `count` scores of a row into weights; rescales what the row has so far.
void UpdateRow(const AttentionTask& task, int r, int count) {
  float* s = task.scratch.scores + r * kKvTile;
  const int dim = task.problem->head_dim_vo;
  F32 largest = F32::Set(kMinusInfinity);
  for (int i = 0; i < count; i += kWidth) {
    const int n = count - i < kWidth ? count - i : kWidth;
    largest = Max(SelectFirst(n, Load(s + i), F32::Set(kMinusInfinity)), largest);
  }
  const float old_max = task.scratch.max[r];
  const float tile_max = MaxLane(largest);
  const float new_max = tile_max > old_max ? tile_max : old_max;
  // Only scores of -inf so far: no weight at all. The exponent below would be inf - inf.
  if (new_max == kMinusInfinity) {
    for (int i = 0; i < count; i += kWidth) Store(s + i, F32::Set(0.0f));
    return;
  }
  F32 sum = F32::Set(0.0f);
  for (int i = 0; i < count; i += kWidth) {
    const int n = count - i < kWidth ? count - i : kWidth;
    const F32 p = SelectFirst(n, Exp2(Load(s + i) - F32::Set(new_max)), F32::Set(0.0f));
    Store(s + i, p);
    sum = sum + p;
  }
  const float added = Sum(sum);
  if (old_max == new_max) {
    task.scratch.denominator[r] += added;
    return;
  }
  float first[kWidth];
  Store(first, Exp2(F32::Set(old_max - new_max)));
  const F32 scale = F32::Set(first[0]);
  task.scratch.max[r] = new_max;
  task.scratch.denominator[r] = task.scratch.denominator[r] * first[0] + added;
  if (old_max == kMinusInfinity) return;  // nothing yet to rescale
  float* out = task.scratch.out + r * dim;
  for (int d = 0; d < dim; d += kWidth) {
    const int n = dim - d < kWidth ? dim - d : kWidth;
    Store(out + d, Load(out + d, n) * scale, n);
  }
}

// ---- Values ----

/// Keys of the tile that row r of the piece may see.
int VisibleInTile(const AttentionTask& task, int group, int r, int64_t tile_begin, int size) {
  const int64_t visible = task.visible + (task.problem->causal ? (task.row_begin + r) / group : 0);
  const int64_t count = visible - tile_begin;
  return count <= 0 ? 0 : count < size ? static_cast<int>(count) : size;
}

template <class T, class Row>
void AddValues(const AttentionTask& task, int num_rows, const int* counts, int size, Row&& row) {
  const int dim = task.problem->head_dim_vo;
  for (int r = 0; r < num_rows;) {
    // Rows that see the whole tile go together, others by themselves up to their own limit.
    int together = 0;
    while (together < kFewRows && r + together < num_rows && counts[r + together] == size) {
      ++together;
    }
    const int count = together > 0 ? together : 1;
    const int keys = together > 0 ? size : counts[r];
    if (keys > 0) {
      MultiplyRows<T>(task.scratch.scores + r * kKvTile, kKvTile, count, keys, row,
                      task.scratch.out + r * dim, dim, dim, false);
    }
    r += count;
  }
}

template <class T>
void AddTile(const AttentionTask& task, const KvTile<T>& tile, int num_rows, const int* counts) {
  if (num_rows <= kFewRows) {
    AddValues<T>(task, num_rows, counts, tile.size, [&](int i) { return tile.v[i]; });
    return;
  }
  const int dim = task.problem->head_dim_vo;
  float* values = task.scratch.v;
  for (int i = 0; i < tile.size; ++i) {
    for (int d = 0; d < dim; d += kWidth) {
      const int n = dim - d < kWidth ? dim - d : kWidth;
      Store(values + i * dim + d, Load(tile.v[i] + d, n), n);
    }
  }
  AddValues<float>(task, num_rows, counts, tile.size,
                   [&](int i) -> const float* { return values + i * dim; });
}

// ---- Results ----

template <class O>
void WriteRow(const AttentionTask& task, int64_t row, const float* sums, float max,
              float denominator) {
  const int dim = task.problem->head_dim_vo;
  const int group = task.problem->num_qo_heads / task.problem->num_kv_heads;
  O* out = reinterpret_cast<O*>(task.out) + row / group * task.out_stride_token +
           row % group * task.out_stride_head;
  const bool is_empty = max == kMinusInfinity;
  const F32 scale = F32::Set(is_empty ? 0.0f : 1.0f / denominator);
  for (int d = 0; d < dim; d += kWidth) {
    const int n = dim - d < kWidth ? dim - d : kWidth;
    Store(out + d, is_empty ? F32::Set(0.0f) : Load(sums + d, n) * scale, n);
  }
  if (task.lse != nullptr) {
    task.lse[row / group * task.lse_stride_token + row % group * task.lse_stride_head] =
        is_empty ? kMinusInfinity : max + __builtin_log2f(denominator);
  }
}

void WriteRowAs(const AttentionTask& task, int64_t row, const float* sums, float max,
                float denominator) {
  const DType dtype = task.problem->dtype_out;
  if (dtype == DType::kF32) return WriteRow<float>(task, row, sums, max, denominator);
  if (dtype == DType::kF16) return WriteRow<F16>(task, row, sums, max, denominator);
  WriteRow<BF16>(task, row, sums, max, denominator);
}

void Finish(const AttentionTask& task, int num_rows) {
  const int dim = task.problem->head_dim_vo;
  for (int r = 0; r < num_rows; ++r) {
    const float* sums = task.scratch.out + r * dim;
    if (task.partial == nullptr) {
      WriteRowAs(task, task.row_begin + r, sums, task.scratch.max[r], task.scratch.denominator[r]);
      continue;
    }
    float* partial = task.partial + r * (dim + 2);
    for (int d = 0; d < dim; ++d) partial[d] = sums[d];
    partial[dim] = task.scratch.max[r];
    partial[dim + 1] = task.scratch.denominator[r];
  }
}

void Merge(const AttentionTask& task, const float* partials, int64_t partial_stride,
           int num_partials) {
  const int dim = task.problem->head_dim_vo;
  float sums[512];
  for (int64_t row = task.row_begin; row < task.row_end; ++row) {
    const float* first = partials + (row - task.row_begin) * (dim + 2);
    float max = kMinusInfinity;
    for (int i = 0; i < num_partials; ++i) {
      const float m = first[i * partial_stride + dim];
      max = m > max ? m : max;
    }
    float denominator = 0;
    for (int d = 0; d < dim; ++d) sums[d] = 0;
    for (int i = 0; i < num_partials; ++i) {
      const float* partial = first + i * partial_stride;
      if (partial[dim] == kMinusInfinity) continue;
      float weight[kWidth];
      Store(weight, Exp2(F32::Set(partial[dim] - max)));
      denominator += weight[0] * partial[dim + 1];
      for (int d = 0; d < dim; ++d) sums[d] += weight[0] * partial[d];
    }
    WriteRowAs(task, row, sums, max, denominator);
  }
}

template <class T>
void RunWith(const AttentionTask& task) {
  const int num_rows = static_cast<int>(task.row_end - task.row_begin);
  const int group = task.problem->num_qo_heads / task.problem->num_kv_heads;
  for (int r = 0; r < num_rows; ++r) {
    task.scratch.max[r] = kMinusInfinity;
    task.scratch.denominator[r] = 0;
  }
  for (int64_t i = 0; i < int64_t{num_rows} * task.problem->head_dim_vo; ++i) {
    task.scratch.out[i] = 0;
  }
  KvTile<T> tile;
  int counts[kAttentionRowsTile];
  for (int64_t begin = task.kv_begin; begin < task.kv_end; begin += kKvTile) {
    const int64_t left = task.kv_end - begin;
    const int size = left < kKvTile ? static_cast<int>(left) : kKvTile;
    FindTile(task, begin, size, tile);
    if (num_rows <= kFewRows) {
      ScoresOfFewRows(task, tile, num_rows);
    } else {
      ScoresOfManyRows(task, tile, num_rows);
    }
    for (int r = 0; r < num_rows; ++r) {
      counts[r] = VisibleInTile(task, group, r, begin, size);
      if (counts[r] > 0) UpdateRow(task, r, counts[r]);
    }
    AddTile(task, tile, num_rows, counts);
  }
  Finish(task, num_rows);
}

void Run(const AttentionTask& task) {
  const int num_rows = static_cast<int>(task.row_end - task.row_begin);
  switch (task.problem->dtype_q) {
    case DType::kF32:
      LoadQuery<float>(task, num_rows);
      break;
    case DType::kF16:
      LoadQuery<F16>(task, num_rows);
      break;
    default:
      LoadQuery<BF16>(task, num_rows);
  }
  switch (task.problem->dtype_kv) {
    case DType::kF32:
      return RunWith<float>(task);
    case DType::kF16:
      return RunWith<F16>(task);
    default:
      return RunWith<BF16>(task);
  }
}

}  // namespace

const AttentionKernels kAttentionKernels{Run, Merge};

}  // namespace flashinfer::cpu::FLASHINFER_ISA
