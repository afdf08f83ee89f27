// SPDX-License-Identifier: Apache-2.0
// Kernels of linear layers: the table, and the activations that they read.
#include "backends/cpu/linear.h"
#include "backends/cpu/simd/linear_store.h"
#include "backends/cpu/simd/simd_int8.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

constexpr int kWidth = F32::kWidth;

/// Rounds one token's 32 columns; `tile` is an ActivationTile of `num_tokens`.
template <class T>
void QuantizeTile(const T* x, uint8_t* tile, int t, int num_tokens) {
  F32 amax = F32::Set(0.0f);
  F32 finite = F32::Set(0.0f);  // NaN as soon as one value is not finite
  for (int i = 0; i < 32; i += kWidth) {
    const F32 v = Load(x + i);
    amax = Max(Abs(v), amax);
    finite = Fma(v, F32::Set(0.0f), finite);
  }
  const float largest = MaxLane(amax);
  const float probe = Sum(finite);
  const F32 inverse = F32::Set(probe == 0.0f && largest > 0.0f ? 127.0f / largest : 0.0f);
  int8_t* quants = reinterpret_cast<int8_t*>(tile) + t * kTileCols;
  for (int i = 0; i < 32; i += kWidth) {
    const F32 v = probe == 0.0f ? Load(x + i) * inverse : F32::Set(0.0f);
    StoreBytes(quants + i, Max(Min(v, F32::Set(127.0f)), F32::Set(-127.0f)));
  }
  const float scale = largest / 127.0f + probe;
  const int32_t first = SumBytes16(quants);
  const int32_t second = SumBytes16(quants + 16);
  float* floats = reinterpret_cast<float*>(tile + num_tokens * kTileCols) + t;
  int32_t* sums = reinterpret_cast<int32_t*>(tile + num_tokens * (kTileCols + 8)) + t;
  floats[0] = scale;
  floats[num_tokens] = scale * static_cast<float>(first + second);
  sums[0] = -(first + second);
  sums[num_tokens] = -first;
  sums[2 * num_tokens] = -second;
}

template <class T>
void Interleave(const T* x, float* out, int64_t cols, int num_tokens) {
  for (int64_t k = 0; k < cols; k += kWidth) {
    const int n = cols - k < kWidth ? static_cast<int>(cols - k) : kWidth;
    float lanes[kWidth];
    Store(lanes, Load(x + k, n));
    for (int i = 0; i < n; ++i) out[(k + i) * num_tokens] = lanes[i];
  }
}

template <class T>
void InterleavePairs(const T* x, uint32_t* out, int64_t cols, int num_tokens) {
  for (int64_t k = 0; k < cols; k += kWidth) {
    const int n = cols - k < kWidth ? static_cast<int>(cols - k) : kWidth;
    BF16 lanes[kWidth];
    Store(lanes, Load(x + k, n));
    for (int i = 0; i < n; i += 2) {
      __builtin_memcpy(out + (k + i) / 2 * num_tokens, lanes + i, 4);
    }
  }
}

template <class T>
void PrepareToken(const T* x, const LinearActivations& a, int64_t block_begin, int t, int block) {
  if (a.tiles != nullptr) {
    uint8_t* tiles = a.tiles + block_begin * (a.cols / kTileCols) * kActivationTileBytes;
    for (int64_t tile = 0; tile < a.cols / kTileCols; ++tile) {
      QuantizeTile(x + tile * kTileCols, tiles + tile * block * kActivationTileBytes, t, block);
    }
  }
  if (a.floats != nullptr) Interleave(x, a.floats + block_begin * a.cols + t, a.cols, block);
  if (a.pairs != nullptr) {
    InterleavePairs(x, a.pairs + block_begin * ((a.cols + 1) / 2) + t, a.cols, block);
  }
}

template <class T>
void PrepareAs(const LinearInput& input, int64_t begin, int64_t end, const LinearActivations& a) {
  for (int64_t token = begin; token < end;) {
    const int block = NextBlock(end - token);
    for (int t = 0; t < block; ++t) {
      PrepareToken(static_cast<const T*>(input.x) + (token + t) * input.stride, a, token, t, block);
    }
    token += block;
  }
}

void Prepare(const LinearInput& input, int64_t begin, int64_t end, const LinearActivations& a) {
  if (input.dtype == DType::kF32) return PrepareAs<float>(input, begin, end, a);
  if (input.dtype == DType::kF16) return PrepareAs<F16>(input, begin, end, a);
  PrepareAs<BF16>(input, begin, end, a);
}

void Panel(const LinearPanelTask& task) {
  if (IsQuantized(task.format)) return QuantizedPanel(task);
  PlainPanel(task);
}

#if defined(__AVX512BF16__)
constexpr bool kUsesPairs = true;
#else
constexpr bool kUsesPairs = false;
#endif

}  // namespace

const LinearKernels kLinearKernels{kPanelsPerTask, kMaxBlock, kUsesPairs, Prepare, Panel};

}  // namespace flashinfer::cpu::FLASHINFER_ISA
