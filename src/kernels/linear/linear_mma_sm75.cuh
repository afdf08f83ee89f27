// SPDX-License-Identifier: Apache-2.0
// Linear layers of many tokens, quantised weights: tensor cores multiply weights and activations as
// bytes, exactly, and each unit of 32 products is scaled and added in f32.
//
// A block takes some rows and tokens; a warp 16 or 32 of the rows, all tokens, and two units of
// each step's. Quants come by cp.async, some steps ahead; scales and activations by registers, one
// step ahead, where they become f32 and bytes. Bound by what scaling takes: three or four f32
// instructions an output and unit.
#pragma once

#include "kernels/linear/activations.cuh"
#include "kernels/linear/linear_spec.h"
#include "kernels/linear/weight_unit.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mma_s8.cuh"
#include "kernels/tile/element.cuh"

namespace flashinfer::kernels::linear_mma {

template <LinearMmaSpec kSpec>
struct Traits {
  static constexpr LinearMmaSpec kS = kSpec;
  static constexpr WeightFormat kFormat = kSpec.format;
  static constexpr int kNumThreads = NumThreads(kSpec);
  static constexpr int kTokens = kSpec.tokens_tile;
  static constexpr int kTokenTiles = kTokens / 8;
  static constexpr int kRowTiles = kSpec.row_tiles;
  static constexpr int kRows = LinearRowsPerBlock(kSpec);
  static constexpr int kUnits = LinearStepUnits(kSpec);
  static constexpr int kStages = kSpec.num_stages;
  static constexpr int kExtraBytes = PlaneBytesOf(kFormat).plane[1];
  static_assert(!IsPlain(kFormat), "format must be a quantised one");
  static_assert(kSpec.vector_size == 1 || kSpec.vector_size == 8, "vector_size must be 1 or 8");
  static_assert(kTokens == 8 || kTokens == 16 || kTokens == 32 || kTokens == 64,
                "tokens_tile must be 8, 16, 32 or 64");
  static_assert(kRowTiles == 1 || kRowTiles == 2, "row_tiles must be 1 or 2");
  static_assert(kSpec.col_warps == 1 || kSpec.col_warps == 2 || kSpec.col_warps == 4,
                "col_warps must be 1, 2 or 4");
  static_assert(kSpec.row_warps >= 1 && kNumThreads <= 512,
                "row_warps * col_warps must be 1 to 16");
  static_assert(kStages >= 2, "num_stages must be 2 or more");
  /// Parts of eight activations that a thread rounds for a step.
  static constexpr int kParts = (kTokens * kUnits * 4 + kNumThreads - 1) / kNumThreads;

  /// Quants of a step, as they lie in memory.
  struct Stage {
    alignas(16) char quants[LinearQuantsBytes(kSpec)];
    alignas(16) char extra[LinearStageBytes(kSpec) == LinearQuantsBytes(kSpec)
                               ? 16
                               : LinearStageBytes(kSpec) - LinearQuantsBytes(kSpec)];
  };
  /// Activations and scales of a step.
  struct Tile {
    alignas(16) char x[kTokens * LinearTokenPitch(kSpec)];
    float x_scales[kUnits][kTokens];
    float x_sums[2][kUnits][kTokens];  ///< the second: of values 16..31, Q6_K
    float w_scales[kUnits][kRows];
    float w_minima[kUnits][kRows];
  };
  static_assert(sizeof(Tile) == LinearTileBytes(kSpec));
};

/// Pieces of shared memory.
template <class T>
struct Shared {
  char* memory;
  __device__ char* Quants(int stage) const { return memory + stage * LinearStageBytes(T::kS); }
  __device__ char* Extra(int stage) const { return Quants(stage) + LinearQuantsBytes(T::kS); }
  __device__ typename T::Tile& TileAt(int parity) const {
    return reinterpret_cast<typename T::Tile*>(memory +
                                               T::kStages * LinearStageBytes(T::kS))[parity];
  }
};

/// What a block works on.
struct Work {
  int first_row;
  int first_token;
  int units;  ///< of a row
};

/// Where a thread's units of the first step are; those of later steps are LinearStepUnits() on.
/// Rows beyond the last read that one; units beyond a row's last are the next row's, and do not
/// count.
template <class T>
struct Cursor {
  uint32_t units[T::kRowTiles];

  __device__ __forceinline__ Cursor(const LinearParams& p, const Work& work) {
#pragma unroll
    for (int k = 0; k < T::kRowTiles; ++k) {
      const int i = static_cast<int>(threadIdx.x) + k * T::kNumThreads;
      const int row = min(work.first_row + i / T::kUnits, p.num_rows - 1);
      units[k] = static_cast<uint32_t>(row) * work.units + i % T::kUnits;
    }
  }
  __device__ __forceinline__ uint32_t At(int k, int step) const {
    return units[k] + step * T::kUnits;
  }
};

/// Starts the copies of a step's quants.
template <class T>
__device__ __forceinline__ void CopyQuants(const LinearParams& p, const Cursor<T>& cursor, int step,
                                           const Shared<T>& shared) {
  const int stage = step % T::kStages;
#pragma unroll
  for (int k = 0; k < T::kRowTiles; ++k) {
    const int i = static_cast<int>(threadIdx.x) + k * T::kNumThreads;
    const uint64_t unit = cursor.At(k, step);
    const int at = i / T::kUnits * LinearQuantPitch(T::kS) + i % T::kUnits * 16;
    ptx::cp_async<16>(shared.Quants(stage) + at, p.weight.quants + unit * 16);
    if constexpr (T::kExtraBytes == 16) {
      ptx::cp_async<16>(shared.Extra(stage) + at, p.weight.extra + unit * 16);
    } else if constexpr (T::kExtraBytes > 0) {
      ptx::cp_async<T::kExtraBytes>(shared.Extra(stage) + i * T::kExtraBytes,
                                    p.weight.extra + unit * T::kExtraBytes);
    }
  }
}

/// A thread's share of what a step needs besides quants, on its way.
template <class T>
struct Ahead {
  linear::ScaleWords<T::kFormat> scales[T::kRowTiles];
  linear::ActivationPart<T::kS.dtype_x, T::kS.vector_size> parts[T::kParts];

  __device__ __forceinline__ void LoadScales(const LinearParams& p, const Cursor<T>& cursor,
                                             int step) {
#pragma unroll
    for (int k = 0; k < T::kRowTiles; ++k) scales[k].Load(p.weight, cursor.At(k, step));
  }

  __device__ __forceinline__ void LoadActivations(const LinearParams& p, const Work& work,
                                                  int step) {
#pragma unroll
    for (int k = 0; k < T::kParts; ++k) {
      const int i = static_cast<int>(threadIdx.x) + k * T::kNumThreads;
      const int token = work.first_token + i / (4 * T::kUnits);
      const int unit = step * T::kUnits + i / 4 % T::kUnits;
      const bool is_there =
          i < T::kTokens * T::kUnits * 4 && token < p.num_tokens && unit < work.units;
      parts[k].Load(tile::At<T::kS.dtype_x>(p.x, token * p.x_stride + unit * 32 + i % 4 * 8),
                    is_there);
    }
  }

  __device__ __forceinline__ void Store(const Work& work, int step, typename T::Tile& tile) const {
#pragma unroll
    for (int k = 0; k < T::kRowTiles; ++k) {
      const int i = static_cast<int>(threadIdx.x) + k * T::kNumThreads;
      const bool counts = step * T::kUnits + i % T::kUnits < work.units;
      const linear::UnitScales s = scales[k].Decode();
      tile.w_scales[i % T::kUnits][i / T::kUnits] = counts ? s.scale : 0.0f;
      if constexpr (HasMinimum(T::kFormat) || T::kFormat == WeightFormat::kQ6_K) {
        tile.w_minima[i % T::kUnits][i / T::kUnits] = counts ? s.minimum : 0.0f;
      }
    }
#pragma unroll
    for (int k = 0; k < T::kParts; ++k) {
      const int i = static_cast<int>(threadIdx.x) + k * T::kNumThreads;
      const int token = i / (4 * T::kUnits);
      const int unit = i / 4 % T::kUnits;
      if (i >= T::kTokens * T::kUnits * 4) break;  // whole warps
      float values[8];
      parts[k].Widen(values);
      const linear::RoundedValues r = linear::RoundTo8Bits(values);
      char* x = tile.x + token * LinearTokenPitch(T::kS) + unit * 32 + i % 4 * 8;
      *reinterpret_cast<uint2*>(x) = make_uint2(r.words[0], r.words[1]);
      if (i % 4 == 0) tile.x_scales[unit][token] = r.scale;
      constexpr int kNumSums = NumActivationSums(T::kFormat);
      if constexpr (kNumSums > 0) {
        const linear::RoundedSums sums = linear::SumsOf<T::kFormat>(r);
        if (i % 4 == 1) tile.x_sums[0][unit][token] = kNumSums == 1 ? sums.all : sums.half;
        if (kNumSums == 2 && i % 4 == 2) tile.x_sums[1][unit][token] = sums.half;
      }
    }
  }
};

/// Sums of a warp: rows (lane / 4, + 8) of each tile, tokens (2 (lane % 4), + 1).
template <class T>
using Sums = float[T::kRowTiles][T::kTokenTiles][4];

/// One unit of a warp's rows.
template <class T>
struct WarpUnit {
  uint32_t a[T::kRowTiles][4];
  float scales[T::kRowTiles][2];
  float minima[T::kRowTiles][2];

  /// `quants` holds words of rows (lane / 4, + 8) of each tile, `high` the same of the plane
  /// `extra` in Q8_0.
  __device__ __forceinline__ void Expand(const uint32_t (&quants)[T::kRowTiles][2],
                                         const uint32_t (&high)[T::kRowTiles][2], const char* extra,
                                         const typename T::Tile& tile, int first_row, int unit) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int m = 0; m < T::kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = first_row + 16 * m + 8 * h + lane / 4;
        linear::QuantWords words;
        if constexpr (T::kFormat == WeightFormat::kQ8_0) {
          words = {quants[m][h], high[m][h]};
        } else {
          words = linear::Expand<T::kFormat>(
              quants[m][h],
              reinterpret_cast<const uint32_t*>(extra + (row * T::kUnits + unit) * T::kExtraBytes),
              lane % 4);
        }
        a[m][h] = words.low;
        a[m][2 + h] = words.high;
        scales[m][h] = tile.w_scales[unit][row];
        if constexpr (HasMinimum(T::kFormat) || T::kFormat == WeightFormat::kQ6_K) {
          minima[m][h] = tile.w_minima[unit][row];
        }
      }
    }
  }
};

/// Integers are summed on top of the bits of 1.5 · 2^23, whose last place is 1: as a float the sum
/// is that much larger.
inline constexpr int32_t kMagicBits = 0x4b400000;
inline constexpr float kMagic = 12582912.0f;

__device__ __forceinline__ float Unmagic(int32_t sum) { return __int_as_float(sum) - kMagic; }

/// sums += weights · eight tokens of one unit, whose bytes are in `b`.
template <class T>
__device__ __forceinline__ void MultiplyUnit(const WarpUnit<T>& w, const uint32_t (&b)[2],
                                             const typename T::Tile& tile, int unit, int token_tile,
                                             Sums<T>& sums) {
  const int token = 8 * token_tile + 2 * (static_cast<int>(threadIdx.x) % 4);
  const float2 x_scale = *reinterpret_cast<const float2*>(&tile.x_scales[unit][token]);
  float2 x_sum = {};
  float2 x_high_sum = {};
  if constexpr (NumActivationSums(T::kFormat) > 0) {
    x_sum = *reinterpret_cast<const float2*>(&tile.x_sums[0][unit][token]);
  }
  if constexpr (NumActivationSums(T::kFormat) > 1) {
    x_high_sum = *reinterpret_cast<const float2*>(&tile.x_sums[1][unit][token]);
  }
#pragma unroll
  for (int m = 0; m < T::kRowTiles; ++m) {
    int32_t dots[4];
    int32_t high_dots[4];
    if constexpr (T::kFormat == WeightFormat::kQ6_K) {
      ptx::mma_m16n8k16_s8(dots, {w.a[m][0], w.a[m][1]}, b[0], kMagicBits);
      ptx::mma_m16n8k16_s8(high_dots, {w.a[m][2], w.a[m][3]}, b[1], kMagicBits);
    } else {
      ptx::mma_m16n8k32_s8(dots, w.a[m], b, kMagicBits);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& sum = sums[m][token_tile][i];
      const bool is_odd = i % 2 == 1;
      const float scale = is_odd ? x_scale.y : x_scale.x;
      const float x = is_odd ? x_sum.y : x_sum.x;
      float dot = Unmagic(dots[i]) * scale;
      if constexpr (QuantOffset(T::kFormat) > 0) dot += x;
      sum += w.scales[m][i / 2] * dot;
      if constexpr (HasMinimum(T::kFormat)) sum += w.minima[m][i / 2] * x;
      if constexpr (T::kFormat == WeightFormat::kQ6_K) {
        const float high = Unmagic(high_dots[i]) * scale;
        sum += w.minima[m][i / 2] * (high + (is_odd ? x_high_sum.y : x_high_sum.x));
      }
    }
  }
}

/// A warp's two units of a step.
template <class T>
__device__ __forceinline__ void MultiplyStep(const Shared<T>& shared, int step, Sums<T>& sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int first_row = warp % T::kS.row_warps * 16 * T::kRowTiles;
  const int first_unit = warp / T::kS.row_warps * 2;
  const int stage = step % T::kStages;
  const typename T::Tile& tile = shared.TileAt(step % 2);
  // Matrices of ldmatrix: rows 0..7 and 8..15 of a tile in the first unit, then in the second.
  uint32_t quants[T::kRowTiles][4];
  uint32_t high[T::kRowTiles][4];
#pragma unroll
  for (int m = 0; m < T::kRowTiles; ++m) {
    const int at =
        (first_row + 16 * m + lane % 16) * LinearQuantPitch(T::kS) + (first_unit + lane / 16) * 16;
    ptx::ldmatrix(quants[m], shared.Quants(stage) + at);
    if constexpr (T::kFormat == WeightFormat::kQ8_0) {
      ptx::ldmatrix(high[m], shared.Extra(stage) + at);
    }
  }
#pragma unroll 1
  for (int u = 0; u < 2; ++u) {
    const int unit = first_unit + u;
    uint32_t own[T::kRowTiles][2];
    uint32_t own_high[T::kRowTiles][2];
#pragma unroll
    for (int m = 0; m < T::kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        own[m][h] = u == 0 ? quants[m][h] : quants[m][2 + h];
        own_high[m][h] = u == 0 ? high[m][h] : high[m][2 + h];
      }
    }
    WarpUnit<T> w;
    w.Expand(own, own_high, shared.Extra(stage), tile, first_row, unit);
    if constexpr (T::kTokenTiles == 1) {
      uint32_t b[2];
      ptx::ldmatrix(b, tile.x + lane % 8 * LinearTokenPitch(T::kS) + unit * 32 + lane / 8 % 2 * 16);
      MultiplyUnit<T>(w, b, tile, unit, 0, sums);
    } else {
#pragma unroll
      for (int n = 0; n < T::kTokenTiles; n += 2) {
        uint32_t b[4];  // both halves of a unit, of eight tokens and of the next eight
        ptx::ldmatrix(b, tile.x + (8 * n + lane / 16 * 8 + lane % 8) * LinearTokenPitch(T::kS) +
                             unit * 32 + lane / 8 % 2 * 16);
        MultiplyUnit<T>(w, {b[0], b[1]}, tile, unit, n, sums);
        MultiplyUnit<T>(w, {b[2], b[3]}, tile, unit, n + 1, sums);
      }
    }
  }
}

/// Adds the sums of warps that share rows to those of the first of them, in order.
template <class T>
__device__ __forceinline__ void AddColumnWarps(char* memory, Sums<T>& sums) {
  constexpr int kCount = T::kRowTiles * T::kTokenTiles * 4;
  const int thread = static_cast<int>(threadIdx.x) % (32 * T::kS.row_warps);
  const int col_warp = static_cast<int>(threadIdx.x) / (32 * T::kS.row_warps);
  const auto at = [&](int other, int i) -> float& {
    return reinterpret_cast<float*>(
        memory)[((other - 1) * kCount + i) * 32 * T::kS.row_warps + thread];
  };
  __syncthreads();
  float(&flat)[kCount] = reinterpret_cast<float(&)[kCount]>(sums);
  if (col_warp > 0) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) at(col_warp, i) = flat[i];
  }
  __syncthreads();
  if (col_warp > 0) return;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
#pragma unroll
    for (int other = 1; other < T::kS.col_warps; ++other) flat[i] += at(other, i);
  }
}

template <class T>
__device__ __forceinline__ void StoreOutputs(const LinearParams& p, const Work& work,
                                             const Sums<T>& sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = work.first_row + static_cast<int>(threadIdx.x) / 32 * 16 * T::kRowTiles;
#pragma unroll
  for (int m = 0; m < T::kRowTiles; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = warp_row + 16 * m + 8 * h + lane / 4;
      if (row >= p.num_rows) continue;
      const float bias = p.bias == nullptr ? 0.0f : p.bias[row];
#pragma unroll
      for (int n = 0; n < T::kTokenTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int64_t token = work.first_token + 8 * n + 2 * (lane % 4) + i;
          if (token >= p.num_tokens) continue;
          float value = p.scale * sums[m][n][2 * h + i] + bias;
          if (p.residual != nullptr) {
            value +=
                tile::LoadElement<T::kS.dtype_out>(p.residual, token * p.residual_stride + row);
          }
          tile::StoreElement<T::kS.dtype_out>(p.out, token * p.out_stride + row, value);
        }
      }
    }
  }
}

template <LinearMmaSpec kSpec>
__device__ __forceinline__ void Run(const LinearParams& p) {
  using T = Traits<kSpec>;
  extern __shared__ __align__(16) char shared_memory[];
  const Shared<T> shared{shared_memory};
  const Work work{static_cast<int>(blockIdx.x) * T::kRows,
                  static_cast<int>(blockIdx.y) * T::kTokens, p.cols / 32};
  const Cursor<T> cursor(p, work);
  const int num_steps = (work.units + T::kUnits - 1) / T::kUnits;
  for (int step = 0; step < T::kStages - 1; ++step) {
    if (step < num_steps) CopyQuants<T>(p, cursor, step, shared);
    ptx::cp_async_commit_group();
  }
  Ahead<T> ahead;
  ahead.LoadScales(p, cursor, 0);
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  ahead.LoadActivations(p, work, 0);
  ahead.Store(work, 0, shared.TileAt(0));
  Sums<T> sums = {};
  for (int step = 0; step < num_steps; ++step) {
    ptx::cp_async_wait_group<T::kStages - 2>();
    __syncthreads();
    if (step + T::kStages - 1 < num_steps) {
      CopyQuants<T>(p, cursor, step + T::kStages - 1, shared);
    }
    ptx::cp_async_commit_group();
    const bool has_next = step + 1 < num_steps;
    if (has_next) {
      ahead.LoadScales(p, cursor, step + 1);
      ahead.LoadActivations(p, work, step + 1);
    }
    MultiplyStep<T>(shared, step, sums);
    if (has_next) ahead.Store(work, step + 1, shared.TileAt((step + 1) % 2));
  }
  if constexpr (kSpec.col_warps > 1) {
    AddColumnWarps<T>(shared_memory, sums);
    if (threadIdx.x >= 32 * kSpec.row_warps) return;
  }
  StoreOutputs<T>(p, work, sums);
}

}  // namespace flashinfer::kernels::linear_mma
