// SPDX-License-Identifier: Apache-2.0
// Linear layers with AMX: bf16 weights by tiles of 16 x 16 sums, all other formats by AVX-512.
//
// A panel's 16 rows of pairs are a tile's right-hand side as they lie: row i of a tile holds
// columns 2i and 2i + 1 of the weights. Activations are rows of pairs, token after token. Written
// from the instruction set's manual and tested with emulated tiles; not run on a machine that has
// them.
#include "backends/cpu/amx.h"
#include "backends/cpu/gemm.h"
#include "backends/cpu/linear.h"
#include "backends/cpu/simd/linear_store.h"

namespace flashinfer::cpu::FLASHINFER_ISA {

// The test of emulated tiles gives this file another namespace than the header's.
extern const bool kHasTiles;
extern const LinearKernels kLinearKernels;
extern const GemmKernels kGemmKernels;

namespace {

#if defined(__AMX_BF16__)

void FewRows(const FewRowsTask& task) { avx512_bf16::kGemmKernels.few_rows(task); }

constexpr int kTileTokens = 16;
constexpr int kTilePairs = 16;

/// Shapes of the eight tiles, as the instruction reads them.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void Set(int tile, int num_rows, int words) {
    rows[tile] = static_cast<uint8_t>(num_rows);
    row_bytes[tile] = static_cast<uint16_t>(4 * words);
  }
};

/// Tiles 0 and 1: sums of two panels. 2: activations, 3 and 4: weights; 5 to 7: the same of the
/// last columns.
void ConfigureTiles(int num_tokens, int last_pairs) {
  TileShapes shapes;
  shapes.Set(0, num_tokens, kPanelRows);
  shapes.Set(1, num_tokens, kPanelRows);
  shapes.Set(2, num_tokens, kTilePairs);
  shapes.Set(3, kTilePairs, kPanelRows);
  shapes.Set(4, kTilePairs, kPanelRows);
  if (last_pairs > 0) {
    shapes.Set(5, num_tokens, last_pairs);
    shapes.Set(6, last_pairs, kPanelRows);
    shapes.Set(7, last_pairs, kPanelRows);
  }
  _tile_loadconfig(&shapes);
}

void TileBlock(const LinearPanelTask& task, int64_t token, int num_tokens) {
  const int64_t num_pairs = (task.activations->cols + 1) / 2;
  const uint32_t* x = task.activations->pairs + token * num_pairs;
  const uint8_t* w0 = PanelOf(task, 0);
  const uint8_t* w1 = PanelOf(task, 1);
  constexpr int64_t kPairBytes = 4 * kPanelRows;
  _tile_zero(0);
  _tile_zero(1);
  int64_t pair = 0;
  for (; pair + kTilePairs <= num_pairs; pair += kTilePairs) {
    _tile_loadd(2, x + pair, num_pairs * 4);
    _tile_loadd(3, w0 + pair * kPairBytes, kPairBytes);
    _tile_loadd(4, w1 + pair * kPairBytes, kPairBytes);
    _tile_dpbf16ps(0, 2, 3);
    _tile_dpbf16ps(1, 2, 4);
  }
  if (pair < num_pairs) {
    _tile_loadd(5, x + pair, num_pairs * 4);
    _tile_loadd(6, w0 + pair * kPairBytes, kPairBytes);
    _tile_loadd(7, w1 + pair * kPairBytes, kPairBytes);
    _tile_dpbf16ps(0, 5, 6);
    _tile_dpbf16ps(1, 5, 7);
  }
  float sums[kTileTokens * kTileRows];
  _tile_stored(0, sums, 4 * kTileRows);
  _tile_stored(1, sums + kPanelRows, 4 * kTileRows);
  StoreBlock(task, token, num_tokens, sums);
}

void Panel(const LinearPanelTask& task) {
  if (task.format != WeightFormat::kBF16) return avx512_bf16::kLinearKernels.panel(task);
  const auto last_pairs = static_cast<int>((task.activations->cols + 1) / 2 % kTilePairs);
  int configured = 0;
  for (int64_t token = 0; token < task.num_tokens; token += kTileTokens) {
    const int64_t left = task.num_tokens - token;
    const int num_tokens = left < kTileTokens ? static_cast<int>(left) : kTileTokens;
    if (num_tokens != configured) ConfigureTiles(num_tokens, last_pairs);
    configured = num_tokens;
    TileBlock(task, token, num_tokens);
  }
  _tile_release();
}

/// One token's pairs, an odd last column with 0.
template <class T>
void FillPairs(const T* x, int64_t cols, uint32_t* pairs) {
  auto* out = reinterpret_cast<BF16*>(pairs);
  if (cols % 2 != 0) out[cols] = {};
  for (int64_t k = 0; k < cols; k += F32::kWidth) {
    const int n = cols - k < F32::kWidth ? static_cast<int>(cols - k) : F32::kWidth;
    Store(out + k, Load(x + k, n), n);
  }
}

template <class T>
void FillAllPairs(const LinearInput& input, int64_t begin, int64_t end,
                  const LinearActivations& a) {
  const int64_t num_pairs = (a.cols + 1) / 2;
  for (int64_t token = begin; token < end; ++token) {
    FillPairs(static_cast<const T*>(input.x) + token * input.stride, a.cols,
              a.pairs + token * num_pairs);
  }
}

void Prepare(const LinearInput& input, int64_t begin, int64_t end, const LinearActivations& a) {
  LinearActivations others = a;
  others.pairs = nullptr;
  avx512_bf16::kLinearKernels.prepare(input, begin, end, others);
  if (a.pairs == nullptr) return;
  if (input.dtype == DType::kF32) return FillAllPairs<float>(input, begin, end, a);
  if (input.dtype == DType::kF16) return FillAllPairs<F16>(input, begin, end, a);
  FillAllPairs<BF16>(input, begin, end, a);
}

/// Blocks of both kernels begin at its multiples.
constexpr int64_t kCommonBlock = 48;
static_assert(kCommonBlock % kTileTokens == 0 && kCommonBlock % kMaxBlock == 0);

}  // namespace

const bool kHasTiles = true;
const LinearKernels kLinearKernels{kPanelsPerTask, kCommonBlock, true, Prepare, Panel};
const GemmKernels kGemmKernels{kLinearKernels, FewRows};

#else

}  // namespace

// Never chosen.
const bool kHasTiles = false;
const LinearKernels kLinearKernels{kPanelsPerTask, kMaxBlock, false, nullptr, nullptr};
const GemmKernels kGemmKernels{kLinearKernels, nullptr};

#endif

}  // namespace flashinfer::cpu::FLASHINFER_ISA
