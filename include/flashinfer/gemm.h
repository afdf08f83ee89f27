// SPDX-License-Identifier: Apache-2.0
// Matrix products with weights in floating point or in GGUF blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "flashinfer/backend.h"
#include "flashinfer/export.h"
#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"
#include "flashinfer/weight_format.h"

namespace flashinfer {

/// `f32`, `q4_1`, `q6_k`, ….
FLASHINFER_API std::string_view Name(WeightFormat format);

/// Values per block (1 for plain elements), and bytes per block.
FLASHINFER_API int64_t BlockSize(WeightFormat format);
FLASHINFER_API int64_t BlockBytes(WeightFormat format);

/// A row-major weight matrix [rows, cols] in host memory that somebody else owns; a row is
/// cols / BlockSize blocks, rows follow each other.
struct WeightView {
  const void* data = nullptr;
  WeightFormat format = WeightFormat::kF32;
  int64_t rows = 0;  ///< output features
  int64_t cols = 0;  ///< input features, a multiple of BlockSize
};

struct PackOptions {
  Backend backend = Backend();
  Device device = Device();  ///< where the packed weight lives and multiplies
  /// Called with `context` after each source matrix has been copied.
  void (*packed)(void* context, const WeightView& source) = nullptr;
  void* context = nullptr;
};

/// Weights of a linear layer, repacked for the backend that will multiply with them.
///
/// Several matrices of the same `cols`, of any formats, may be packed as one: their rows follow
/// each other in the output (fused QKV, gate and up). Packing copies: the sources may be released
/// afterwards, one by one, as `packed` tells.
class FLASHINFER_API PackedWeight {
 public:
  PackedWeight();
  explicit PackedWeight(std::span<const WeightView> sources, const PackOptions& options = {});
  explicit PackedWeight(const WeightView& source, const PackOptions& options = {});
  PackedWeight(PackedWeight&&) noexcept;
  PackedWeight& operator=(PackedWeight&&) noexcept;
  ~PackedWeight();

  int64_t rows() const;
  int64_t cols() const;
  size_t size_bytes() const;
  std::string_view backend() const;
  Device device() const;

  /// Dequantised rows, for embedding look-ups: out[i] = row ids[i].
  ///
  ///   ids  [num_tokens]        i32, each in 0..rows-1; on a CUDA device others give rows of NaN
  ///   out  [num_tokens, cols]  f32, f16, bf16
  void GatherRows(const TensorView& ids, const TensorView& out, Stream stream = {}) const;

 private:
  friend struct PackedWeightAccess;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct LinearOptions {
  TensorView bias = TensorView();      ///< [rows] f32; undefined view: none
  TensorView residual = TensorView();  ///< [num_tokens, rows], dtype of out, added; may be out
};

/// out = x · Wᵀ + bias + residual, accumulated in float32. Quantised weights multiply with x
/// rounded to 8 bits per group of 32 values, as llama.cpp does.
///
///   x    [num_tokens, cols]  f32, f16, bf16
///   out  [num_tokens, rows]  f32, f16, bf16
FLASHINFER_API void Linear(const TensorView& x, const PackedWeight& weight, const TensorView& out,
                           const LinearOptions& options = {}, Stream stream = {});

struct GemmOptions {
  Backend backend = Backend();
  float a_scale = 1.0f;  ///< multiply the product: what fp8 matrices were divided by
  float b_scale = 1.0f;
  /// One f32 each, in place of the numbers.
  TensorView a_scale_tensor = TensorView();
  TensorView b_scale_tensor = TensorView();
};

/// out = a_scale · b_scale · a · bᵀ, accumulated in float32; for weights that change with every
/// call. With more than four rows in a it packs b each time (and allocates for that): weights that
/// stay are faster through PackedWeight and Linear(). On CPUs with bf16 dot products, bf16 and fp8
/// inputs multiply exactly and add up in float32.
///
///   a    [m, k]  f32, f16, bf16, e4m3, e5m2; any strides
///   b    [n, k]  the dtype of a, for fp8 either; any strides (a transposed view of [k, n] will do)
///   out  [m, n]  f32 or the dtype of a, for fp8 f32, f16 or bf16; dense rows
///
/// Or a batch of products: [batch_size, m, k], [batch_size, n, k] and [batch_size, m, n].
FLASHINFER_API void Gemm(const TensorView& a, const TensorView& b, const TensorView& out,
                         const GemmOptions& options = {}, Stream stream = {});

struct SegmentGemmOptions {
  /// [num_segments] i32 or i64, host memory: the weight of each segment. Undefined view: segment i
  /// has weight i.
  TensorView weight_indices = TensorView();
  Backend backend = Backend();
};

/// Multiplies each segment of rows with a weight of its own (LoRA): out[t] = weight · x[t], as
/// Gemm().
///
///   x        [num_rows, d_in]            f32, f16, bf16; any strides
///   weights  [num_weights, d_out, d_in]  the dtype of x; any strides (a transposed view of
///                                        [num_weights, d_in, d_out] will do)
///   indptr   [num_segments + 1]          i32 or i64, host memory, non-decreasing, from 0 to
///                                        num_rows; segments may be empty
///   out      [num_rows, d_out]           f32 or the dtype of x; dense rows
FLASHINFER_API void SegmentGemm(const TensorView& x, const TensorView& weights,
                                const TensorView& indptr, const TensorView& out,
                                const SegmentGemmOptions& options = {}, Stream stream = {});

}  // namespace flashinfer
