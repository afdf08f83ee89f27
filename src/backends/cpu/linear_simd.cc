// SPDX-License-Identifier: Apache-2.0
// Kernels of linear layers: one panel of 16 rows times a block of tokens.
//
// A register tile holds F32::kWidth rows and up to kMaxTokens tokens. Weights are unpacked once per
// register tile; activations are broadcast from memory. With one token the limiter is reading the
// weights; with many it is the dot-product instruction.
#include "backends/cpu/linear.h"
#include "backends/cpu/simd/simd.h"
#include "backends/cpu/simd/simd_int8.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

constexpr int kWidth = F32::kWidth;
constexpr int kMaxTokens = 8;

inline int32_t LoadDword(const int8_t* p) {
  int32_t x = 0;
  __builtin_memcpy(&x, p, 4);
  return x;
}

// ---- Writing a register tile ----

template <class T>
void StoreRow(const LinearPanelTask& task, int64_t token, int first_row, F32 value) {
  const int n = task.num_rows - first_row < kWidth ? task.num_rows - first_row : kWidth;
  if (task.bias != nullptr) value = value + Load(task.bias + first_row, n);
  if (task.residual != nullptr) {
    const T* residual = reinterpret_cast<const T*>(task.residual) + token * task.residual_stride;
    value = value + Load(residual + first_row, n);
  }
  Store(reinterpret_cast<T*>(task.out) + token * task.out_stride + first_row, value, n);
}

template <int kTokens>
void StoreTile(const LinearPanelTask& task, int64_t token, int first_row,
               const F32 (&acc)[kTokens]) {
  for (int t = 0; t < kTokens; ++t) {
    if (task.dtype_out == DType::kF32) {
      StoreRow<float>(task, token + t, first_row, acc[t]);
    } else if (task.dtype_out == DType::kF16) {
      StoreRow<F16>(task, token + t, first_row, acc[t]);
    } else {
      StoreRow<BF16>(task, token + t, first_row, acc[t]);
    }
  }
}

// ---- Quantised weights ----

/// Activations of the tile's tokens at one tile of columns.
template <int kTokens>
struct TileActivations {
  const int8_t* quants;  // of token 0; the next token is cols further
  const float* scales;
  const int32_t* sums;
  int64_t cols;

  int32_t Four(int t, int k) const { return LoadDword(quants + t * cols + k); }
  float Scale(int t) const { return scales[t * (cols / 32)]; }
  int32_t Sum(int t, int half) const { return sums[t * (cols / 16) + half]; }
};

/// acc[t] += Σ over 32 columns of nibble weights.
template <int kTokens>
inline void DotNibbles(const uint8_t* w, const TileActivations<kTokens>& a, I32 (&acc)[kTokens]) {
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const U8 both = LoadU8(w + c * 64);
    const U8 low = LowNibbles(both);
    const U8 high = HighNibbles(both);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) acc[t] = Dot<QuantBits::k6>(acc[t], low, a.Four(t, 8 * c));
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      acc[t] = Dot<QuantBits::k6>(acc[t], high, a.Four(t, 8 * c + 4));
    }
  }
}

/// Each format: where a tile's bytes are, and how it adds a tile to the float accumulators. `half`
/// is the first row of the register tile within the panel.
template <WeightFormat kFormat>
struct Tile;

template <>
struct Tile<WeightFormat::kQ4_0> {
  template <int kTokens>
  static void Add(const uint8_t* p, const uint8_t*, int half, const TileActivations<kTokens>& a,
                  F32 (&acc)[kTokens]) {
    I32 dots[kTokens];
    for (int t = 0; t < kTokens; ++t) dots[t] = I32::Set(-8 * (a.Sum(t, 0) + a.Sum(t, 1)));
    DotNibbles<kTokens>(p + half * 4, a, dots);
    const F32 d = Load(reinterpret_cast<const F16*>(p + kNibbleBytes) + half);
    for (int t = 0; t < kTokens; ++t) {
      acc[t] = Fma(ToF32(dots[t]), d * F32::Set(a.Scale(t)), acc[t]);
    }
  }
};

template <>
struct Tile<WeightFormat::kQ4_1> {
  template <int kTokens>
  static void Add(const uint8_t* p, const uint8_t*, int half, const TileActivations<kTokens>& a,
                  F32 (&acc)[kTokens]) {
    I32 dots[kTokens];
    for (int t = 0; t < kTokens; ++t) dots[t] = I32::Set(0);
    DotNibbles<kTokens>(p + half * 4, a, dots);
    const F16* scales = reinterpret_cast<const F16*>(p + kNibbleBytes);
    const F32 d = Load(scales + half);
    const F32 m = Load(scales + kPanelRows + half);
    for (int t = 0; t < kTokens; ++t) {
      // scale · (d · dot + m · sum)
      const F32 sum = F32::Set(static_cast<float>(a.Sum(t, 0) + a.Sum(t, 1)));
      acc[t] = Fma(Fma(ToF32(dots[t]), d, m * sum), F32::Set(a.Scale(t)), acc[t]);
    }
  }
};

template <>
struct Tile<WeightFormat::kQ8_0> {
  template <int kTokens>
  static void Add(const uint8_t* p, const uint8_t*, int half, const TileActivations<kTokens>& a,
                  F32 (&acc)[kTokens]) {
    I32 dots[kTokens];
    for (int t = 0; t < kTokens; ++t) dots[t] = I32::Set(-128 * (a.Sum(t, 0) + a.Sum(t, 1)));
#pragma GCC unroll 8
    for (int c = 0; c < 8; ++c) {
      const U8 w = LoadU8(p + c * 64 + half * 4);
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) dots[t] = Dot<QuantBits::k8>(dots[t], w, a.Four(t, 4 * c));
    }
    const F32 d = Load(reinterpret_cast<const F16*>(p + kByteBytes) + half);
    for (int t = 0; t < kTokens; ++t) {
      acc[t] = Fma(ToF32(dots[t]), d * F32::Set(a.Scale(t)), acc[t]);
    }
  }
};

template <>
struct Tile<WeightFormat::kQ4_K> {
  template <int kTokens>
  static void Add(const uint8_t* p, const uint8_t* header, int half,
                  const TileActivations<kTokens>& a, F32 (&acc)[kTokens]) {
    I32 dots[kTokens];
    for (int t = 0; t < kTokens; ++t) dots[t] = I32::Set(0);
    DotNibbles<kTokens>(p + half * 4, a, dots);
    const F16* supers = reinterpret_cast<const F16*>(header);
    const F32 d = Load(supers + half) * LoadBytes(p + kNibbleBytes + half);
    const F32 m = Load(supers + kPanelRows + half) * LoadBytes(p + kNibbleBytes + 16 + half);
    for (int t = 0; t < kTokens; ++t) {
      const F32 sum = F32::Set(-static_cast<float>(a.Sum(t, 0) + a.Sum(t, 1)));
      acc[t] = Fma(Fma(ToF32(dots[t]), d, m * sum), F32::Set(a.Scale(t)), acc[t]);
    }
  }
};

template <>
struct Tile<WeightFormat::kQ6_K> {
  template <int kTokens, int kHalf>
  static void AddHalf(const uint8_t* p, int half, const TileActivations<kTokens>& a, F32 d,
                      F32 (&acc)[kTokens]) {
    I32 dots[kTokens];
    for (int t = 0; t < kTokens; ++t) dots[t] = I32::Set(-32 * a.Sum(t, kHalf));
    const U8 high = LoadU8(p + kNibbleBytes + kHalf * 64 + half * 4);
    const U8 first = LoadU8(p + kHalf * 128 + half * 4);
    const U8 second = LoadU8(p + kHalf * 128 + 64 + half * 4);
    const U8 w[4] = {LowNibbles(first) | HighBits<0>(high), HighNibbles(first) | HighBits<1>(high),
                     LowNibbles(second) | HighBits<2>(high),
                     HighNibbles(second) | HighBits<3>(high)};
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        dots[t] = Dot<QuantBits::k6>(dots[t], w[i], a.Four(t, 16 * kHalf + 4 * i));
      }
    }
    const int8_t* scales =
        reinterpret_cast<const int8_t*>(p + kNibbleBytes + kHighBytes + kHalf * 16);
    const F32 scale = d * LoadBytes(scales + half);
    for (int t = 0; t < kTokens; ++t) {
      acc[t] = Fma(ToF32(dots[t]), scale * F32::Set(a.Scale(t)), acc[t]);
    }
  }
  template <int kTokens>
  static void Add(const uint8_t* p, const uint8_t* header, int half,
                  const TileActivations<kTokens>& a, F32 (&acc)[kTokens]) {
    const F32 d = Load(reinterpret_cast<const F16*>(header) + half);
    AddHalf<kTokens, 0>(p, half, a, d, acc);
    AddHalf<kTokens, 1>(p, half, a, d, acc);
  }
};

template <WeightFormat kFormat, int kTokens>
void QuantizedTokens(const LinearPanelTask& task, int64_t token) {
  constexpr bool kIsSuper = kFormat == WeightFormat::kQ4_K || kFormat == WeightFormat::kQ6_K;
  constexpr int64_t kTile = TileBytes(kFormat);
  const LinearActivations& act = *task.activations;
  const int64_t num_tiles = act.cols / kTileCols;
  for (int half = 0; half < task.num_rows; half += kWidth) {
    F32 acc[kTokens];
    for (int t = 0; t < kTokens; ++t) acc[t] = F32::Set(0.0f);
    const uint8_t* p = task.panel;
    const uint8_t* header = p;
    TileActivations<kTokens> a{act.quants + token * act.cols, act.scales + token * (act.cols / 32),
                               act.sums + token * (act.cols / 16), act.cols};
    for (int64_t tile = 0; tile < num_tiles; ++tile) {
      if (kIsSuper && tile % 8 == 0) {
        header = p;
        p += kSuperHeaderBytes;
      }
      Tile<kFormat>::template Add<kTokens>(p, header, half, a, acc);
      p += kTile;
      a.quants += kTileCols;
      a.scales += 1;
      a.sums += 2;
    }
    StoreTile<kTokens>(task, token, half, acc);
  }
}

// ---- Plain weights ----

/// Columns of a float tile are spread over several accumulators, so that few tokens do not wait
/// for the latency of one addition after another.
template <int kTokens>
constexpr int kChains = kTokens >= 4 ? 1 : 4 / kTokens;

template <class W, int kTokens>
void PlainTokens(const LinearPanelTask& task, int64_t token) {
  constexpr int kUnroll = kChains<kTokens>;
  const LinearActivations& act = *task.activations;
  const float* x = act.floats + token * act.floats_stride;
  for (int half = 0; half < task.num_rows; half += kWidth) {
    F32 acc[kUnroll][kTokens];
    for (auto& chain : acc) {
      for (F32& v : chain) v = F32::Set(0.0f);
    }
    const W* w = reinterpret_cast<const W*>(task.panel) + half;
    int64_t k = 0;
    for (; k + kUnroll <= act.cols; k += kUnroll) {
#pragma GCC unroll 4
      for (int u = 0; u < kUnroll; ++u) {
        const F32 weights = Load(w + (k + u) * kPanelRows);
#pragma GCC unroll 8
        for (int t = 0; t < kTokens; ++t) {
          acc[u][t] = Fma(weights, F32::Set(x[t * act.floats_stride + k + u]), acc[u][t]);
        }
      }
    }
    for (; k < act.cols; ++k) {
      const F32 weights = Load(w + k * kPanelRows);
      for (int t = 0; t < kTokens; ++t) {
        acc[0][t] = Fma(weights, F32::Set(x[t * act.floats_stride + k]), acc[0][t]);
      }
    }
    for (int u = 1; u < kUnroll; ++u) {
      for (int t = 0; t < kTokens; ++t) acc[0][t] = acc[0][t] + acc[u][t];
    }
    StoreTile<kTokens>(task, token, half, acc[0]);
  }
}

#if defined(__AVX512BF16__)

/// Two columns at a time: products of bf16 pairs, added in float32.
template <int kTokens>
void PairTokens(const LinearPanelTask& task, int64_t token) {
  constexpr int kUnroll = kChains<kTokens>;
  const LinearActivations& act = *task.activations;
  const int64_t num_pairs = (act.cols + 1) / 2;
  const uint16_t* x = act.pairs + token * num_pairs * 2;
  __m512 acc[kUnroll][kTokens];
  for (auto& chain : acc) {
    for (__m512& v : chain) v = _mm512_setzero_ps();
  }
  const uint8_t* w = task.panel;
  const auto step = [&](int u, int64_t pair) {
    const __m512bh weights = (__m512bh)_mm512_loadu_si512(w + pair * 64);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      int32_t both = 0;
      __builtin_memcpy(&both, x + (t * num_pairs + pair) * 2, 4);
      acc[u][t] = _mm512_dpbf16_ps(acc[u][t], weights, (__m512bh)_mm512_set1_epi32(both));
    }
  };
  int64_t pair = 0;
  for (; pair + kUnroll <= num_pairs; pair += kUnroll) {
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll; ++u) step(u, pair + u);
  }
  for (; pair < num_pairs; ++pair) step(0, pair);
  F32 sum[kTokens];
  for (int t = 0; t < kTokens; ++t) {
    sum[t] = {acc[0][t]};
    for (int u = 1; u < kUnroll; ++u) sum[t] = sum[t] + F32{acc[u][t]};
  }
  StoreTile<kTokens>(task, token, 0, sum);
}

void MakePairs(const float* x, const LinearActivations& a, int64_t token) {
  uint16_t* pairs = a.pairs + token * ((a.cols + 1) / 2 * 2);
  int64_t k = 0;
  for (; k + kWidth <= a.cols; k += kWidth) {
    Store(reinterpret_cast<BF16*>(pairs + k), Load(x + k));
  }
  const int n = static_cast<int>(a.cols - k);
  if (n > 0) Store(reinterpret_cast<BF16*>(pairs + k), Load(x + k, n), n);
  if (a.cols % 2 != 0) pairs[a.cols] = 0;
}

#else

/// Two columns at a time, widened to floats.
template <int kTokens>
void PairTokens(const LinearPanelTask& task, int64_t token) {
  const LinearActivations& act = *task.activations;
  const float* x = act.floats + token * act.floats_stride;
  const uint16_t* w = reinterpret_cast<const uint16_t*>(task.panel);
  for (int half = 0; half < task.num_rows; half += kWidth) {
    F32 acc[kTokens];
    for (int t = 0; t < kTokens; ++t) acc[t] = F32::Set(0.0f);
    for (int64_t k = 0; k < act.cols; ++k) {
      BF16 column[kWidth];
      for (int i = 0; i < kWidth; ++i)
        column[i].bits = w[(k / 2 * kPanelRows + half + i) * 2 + k % 2];
      const F32 weights = Load(column);
      for (int t = 0; t < kTokens; ++t) {
        acc[t] = Fma(weights, F32::Set(x[t * act.floats_stride + k]), acc[t]);
      }
    }
    StoreTile<kTokens>(task, token, half, acc);
  }
}

#endif

// ---- Which kernel ----

template <int kTokens>
void Tokens(const LinearPanelTask& task, int64_t token) {
  switch (task.format) {
    case WeightFormat::kF32:
      return PlainTokens<float, kTokens>(task, token);
    case WeightFormat::kF16:
      return PlainTokens<F16, kTokens>(task, token);
    case WeightFormat::kBF16:
      return PairTokens<kTokens>(task, token);
    case WeightFormat::kQ4_0:
      return QuantizedTokens<WeightFormat::kQ4_0, kTokens>(task, token);
    case WeightFormat::kQ4_1:
      return QuantizedTokens<WeightFormat::kQ4_1, kTokens>(task, token);
    case WeightFormat::kQ8_0:
      return QuantizedTokens<WeightFormat::kQ8_0, kTokens>(task, token);
    case WeightFormat::kQ4_K:
      return QuantizedTokens<WeightFormat::kQ4_K, kTokens>(task, token);
    case WeightFormat::kQ6_K:
      return QuantizedTokens<WeightFormat::kQ6_K, kTokens>(task, token);
  }
}

void Panel(const LinearPanelTask& task) {
  int64_t token = task.token_begin;
  for (; token + kMaxTokens <= task.token_end; token += kMaxTokens) {
    Tokens<kMaxTokens>(task, token);
  }
  switch (task.token_end - token) {
    case 1:
      return Tokens<1>(task, token);
    case 2:
      return Tokens<2>(task, token);
    case 3:
      return Tokens<3>(task, token);
    case 4:
      return Tokens<4>(task, token);
    case 5:
      return Tokens<5>(task, token);
    case 6:
      return Tokens<6>(task, token);
    case 7:
      return Tokens<7>(task, token);
    default:
      return;
  }
}

// ---- Activations ----

void Quantize(const float* x, const LinearActivations& a, int64_t token) {
  int8_t* quants = a.quants + token * a.cols;
  float* scales = a.scales + token * (a.cols / 32);
  int32_t* sums = a.sums + token * (a.cols / 16);
  for (int64_t k = 0; k < a.cols; k += 32) {
    F32 amax = F32::Set(0.0f);
    F32 finite = F32::Set(0.0f);  // NaN as soon as one value is not finite
    for (int i = 0; i < 32; i += kWidth) {
      const F32 v = Load(x + k + i);
      amax = Max(Abs(v), amax);
      finite = Fma(v, F32::Set(0.0f), finite);
    }
    const float largest = MaxLane(amax);
    const float probe = Sum(finite);
    const bool usable = probe == 0.0f && largest > 0.0f;
    const F32 inverse = F32::Set(usable ? 127.0f / largest : 0.0f);
    scales[k / 32] = largest / 127.0f + probe;
    for (int i = 0; i < 32; i += kWidth) {
      const F32 v = probe == 0.0f ? Load(x + k + i) * inverse : F32::Set(0.0f);
      StoreBytes(quants + k + i, Max(Min(v, F32::Set(127.0f)), F32::Set(-127.0f)));
    }
    sums[k / 16] = SumBytes16(quants + k);
    sums[k / 16 + 1] = SumBytes16(quants + k + 16);
  }
}

template <class T>
void Widen(const T* x, float* out, int64_t size) {
  int64_t k = 0;
  for (; k + kWidth <= size; k += kWidth) Store(out + k, Load(x + k));
  const int n = static_cast<int>(size - k);
  if (n > 0) Store(out + k, Load(x + k, n), n);
}

void ToFloats(const void* x, DType dtype, float* out, int64_t size) {
  if (dtype == DType::kF16) return Widen(static_cast<const F16*>(x), out, size);
  if (dtype == DType::kBF16) return Widen(static_cast<const BF16*>(x), out, size);
  Widen(static_cast<const float*>(x), out, size);
}

}  // namespace

#if defined(__AVX512BF16__)
const LinearKernels kLinearKernels{Quantize, MakePairs, ToFloats, Panel};
#else
const LinearKernels kLinearKernels{Quantize, nullptr, ToFloats, Panel};
#endif

}  // namespace flashinfer::cpu::FLASHINFER_ISA
