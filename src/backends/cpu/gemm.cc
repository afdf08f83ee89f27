// SPDX-License-Identifier: Apache-2.0
// Dense matrix products on the CPU: dense rows of both sides, then a linear layer of one call.
#include "backends/cpu/gemm.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backends/cpu/thread_pool.h"
#include "core/convert.h"

namespace flashinfer::cpu {
namespace {

bool IsFp8(DType dtype) { return dtype == DType::kE4M3 || dtype == DType::kE5M2; }

/// The bf16 bits of every code of an fp8 type.
template <class Fp8>
const std::array<uint16_t, 256>& WideCodes() {
  static const std::array<uint16_t, 256> codes = [] {
    std::array<uint16_t, 256> table{};
    for (size_t i = 0; i < 256; ++i) {
      table[i] = FromFloat<BF16>(ToFloat(Fp8{static_cast<uint8_t>(i)})).bits;
    }
    return table;
  }();
  return codes;
}

/// Copies `matrix` to dense rows, each element through `convert`; square pieces, so that both sides
/// stay within few cache lines whichever stride is 1.
template <class From, class To, class Convert>
void CopyDense(const MatrixRows& matrix, To* out, const Convert& convert) {
  constexpr int64_t kPiece = 64;
  const auto* from = static_cast<const From*>(matrix.data);
  ParallelFor((matrix.rows + kPiece - 1) / kPiece, 1, [&](int64_t first, int64_t last) {
    for (int64_t row = first * kPiece; row < std::min(last * kPiece, matrix.rows); row += kPiece) {
      const int64_t row_end = std::min(row + kPiece, matrix.rows);
      for (int64_t col = 0; col < matrix.cols; col += kPiece) {
        const int64_t col_end = std::min(col + kPiece, matrix.cols);
        for (int64_t i = row; i < row_end; ++i) {
          const From* x = from + i * matrix.row_stride;
          To* y = out + i * matrix.cols;
          if (matrix.col_stride == 1) {
            for (int64_t j = col; j < col_end; ++j) y[j] = convert(x[j]);
          } else {
            for (int64_t j = col; j < col_end; ++j) y[j] = convert(x[j * matrix.col_stride]);
          }
        }
      }
    }
  });
}

WeightFormat FormatOf(DType dtype) {
  if (dtype == DType::kF32) return WeightFormat::kF32;
  return dtype == DType::kF16 ? WeightFormat::kF16 : WeightFormat::kBF16;
}

}  // namespace

/// A matrix with adjacent elements in a row, of a type that linear layers take: the given one, or a
/// copy.
class DenseRows {
 public:
  /// `is_whole`: rows follow each other, too.
  DenseRows(const MatrixRows& matrix, bool is_whole)
      : data_(matrix.data), dtype_(matrix.dtype), stride_(matrix.row_stride) {
    const bool has_dense_rows = matrix.col_stride == 1 || matrix.cols == 1;
    const bool is_packed = matrix.row_stride == matrix.cols || matrix.rows == 1;
    if (IsFp8(matrix.dtype)) {
      dtype_ = DType::kBF16;
    } else if (has_dense_rows && (is_packed || !is_whole)) {
      return;
    }
    stride_ = matrix.cols;
    copy_ = std::make_unique_for_overwrite<char[]>(
        static_cast<size_t>(matrix.rows * matrix.cols * SizeBytes(dtype_)));
    data_ = copy_.get();
    const auto same = [](auto value) { return value; };
    if (matrix.dtype == DType::kE4M3) {
      Widen<E4M3>(matrix);
    } else if (matrix.dtype == DType::kE5M2) {
      Widen<E5M2>(matrix);
    } else if (matrix.dtype == DType::kF32) {
      CopyDense<float>(matrix, reinterpret_cast<float*>(copy_.get()), same);
    } else {
      CopyDense<uint16_t>(matrix, reinterpret_cast<uint16_t*>(copy_.get()), same);
    }
  }

  const void* data() const { return data_; }
  DType dtype() const { return dtype_; }
  int64_t stride() const { return stride_; }

 private:
  template <class Fp8>
  void Widen(const MatrixRows& matrix) {
    const std::array<uint16_t, 256>& codes = WideCodes<Fp8>();
    CopyDense<uint8_t>(matrix, reinterpret_cast<uint16_t*>(copy_.get()),
                       [&](uint8_t code) { return codes[code]; });
  }

  std::unique_ptr<char[]> copy_;
  const void* data_;
  DType dtype_;
  int64_t stride_;
};

bool AcceptsGemm(const GemmProblem& problem, std::string* why) {
  const DType a = problem.dtype_a;
  const DType out = problem.dtype_out;
  if (IsFp8(a) || IsFp8(problem.dtype_b)) {
    if (!IsFp8(a) || !IsFp8(problem.dtype_b)) return Refuse(why, "both sides must be fp8, or none");
    return out == DType::kF32 || out == DType::kF16 || out == DType::kBF16 ||
           Refuse(why, "dtype_out must be f32, f16 or bf16");
  }
  if (a != DType::kF32 && a != DType::kF16 && a != DType::kBF16) {
    return Refuse(why, "dtype_a must be f32, f16, bf16, e4m3 or e5m2");
  }
  if (problem.dtype_b != a) return Refuse(why, "dtype_b must be dtype_a");
  return out == a || out == DType::kF32 || Refuse(why, "dtype_out must be dtype_a or f32");
}

GemmWeight::GemmWeight(const GemmKernels& kernels, const MatrixRows& b)
    : kernels_(kernels), b_(b) {}
GemmWeight::~GemmWeight() = default;

void GemmWeight::Multiply(const MatrixRows& a, const GemmParams& params) {
  const DenseRows rows(a, false);
  if (a.rows <= kMaxFewRows) return MultiplyFewRows(rows, static_cast<int>(a.rows), params);
  if (packed_ == nullptr) {
    const DenseRows whole(b_, true);
    const WeightView weight{whole.data(), FormatOf(whole.dtype()), b_.rows, b_.cols};
    packed_ = PackLinearWith(kernels_.linear, {.sources = std::span(&weight, 1)});
  }
  packed_->Run({.x = rows.data(),
                .out = params.out,
                .bias = nullptr,
                .residual = nullptr,
                .num_tokens = a.rows,
                .x_stride = rows.stride(),
                .out_stride = params.out_stride,
                .residual_stride = 0,
                .dtype_x = rows.dtype(),
                .dtype_out = params.dtype_out,
                .scale = params.scale});
}

void GemmWeight::MultiplyFewRows(const DenseRows& a, int num_tokens, const GemmParams& params) {
  if (rows_ == nullptr) rows_ = std::make_unique<DenseRows>(b_, false);
  constexpr int64_t kGrainElements = 32768;  // some microseconds of reading
  const int64_t num_pieces = (b_.rows + kFewRowsPiece - 1) / kFewRowsPiece;
  const int64_t grain = std::max<int64_t>(1, kGrainElements / (kFewRowsPiece * b_.cols));
  ParallelFor(num_pieces, grain, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece) {
      kernels_.few_rows({.a = a.data(),
                         .a_stride = a.stride(),
                         .b = rows_->data(),
                         .b_stride = rows_->stride(),
                         .dtype = a.dtype(),
                         .k = b_.cols,
                         .num_tokens = num_tokens,
                         .begin = piece * kFewRowsPiece,
                         .end = std::min((piece + 1) * kFewRowsPiece, b_.rows),
                         .scale = params.scale,
                         .out = params.out,
                         .out_stride = params.out_stride,
                         .dtype_out = params.dtype_out});
    }
  });
}

void Gemm(const GemmKernels& kernels, const GemmParams& params) {
  GemmWeight(kernels, params.b).Multiply(params.a, params);
}

}  // namespace flashinfer::cpu
