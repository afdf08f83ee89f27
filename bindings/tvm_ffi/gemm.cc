// SPDX-License-Identifier: Apache-2.0
// include/flashinfer/gemm.h and grouped_gemm.h for other languages.
#include "flashinfer/gemm.h"

#include "bindings/tvm_ffi/call.h"
#include "flashinfer/grouped_gemm.h"

namespace flashinfer::bindings {
namespace {

/// b[..., k, n] as [..., n, k].
TensorView Transposed(std::string_view name, const TensorView& b) {
  const int rank = b.rank();
  if (rank < 2) {
    throw Error(ErrorKind::kInvalidArgument,
                std::string(name) + ": is " + Text(b) + ", expected a matrix");
  }
  Dims shape = b.shape();
  Dims strides = b.strides();
  std::swap(shape[rank - 1], shape[rank - 2]);
  std::swap(strides[rank - 1], strides[rank - 2]);
  return {b.data(), b.dtype(), shape, strides, b.device()};
}

/// b is [k, n] or a batch of such.
void Matmul(const TensorView& a, const TensorView& b, const TensorView& out, double scale,
            const TensorView& a_scale, const TensorView& b_scale) {
  flashinfer::Gemm(a, Transposed("b", b), out,
                   {.a_scale = static_cast<float>(scale),
                    .a_scale_tensor = AsOneElement("a_scale", a_scale),
                    .b_scale_tensor = AsOneElement("b_scale", b_scale)},
                   StreamOf(a));
}

/// weights are [num_weights, d_out, d_in], or the transposed of it.
void SegmentGemm(const TensorView& x, const TensorView& weights, bool is_transposed,
                 const TensorView& indptr, const TensorView& weight_indices,
                 const TensorView& out) {
  flashinfer::SegmentGemm(x, is_transposed ? Transposed("weights", weights) : weights, indptr, out,
                          {.weight_indices = weight_indices}, StreamOf(x));
}

GroupedGemmOptions Options(const TensorView& a_scale, const TensorView& b_scale,
                           int64_t rows_per_scale, int64_t n_per_scale, int64_t k_per_scale) {
  return {.scales = {.a = a_scale,
                     .b = b_scale,
                     .rows_per_scale = static_cast<int32_t>(rows_per_scale),
                     .n_per_scale = static_cast<int32_t>(n_per_scale),
                     .k_per_scale = static_cast<int32_t>(k_per_scale)}};
}

void GroupedGemm(const TensorView& a, const TensorView& b, const TensorView& indptr,
                 const TensorView& out, const TensorView& a_scale, const TensorView& b_scale,
                 int64_t rows_per_scale, int64_t n_per_scale, int64_t k_per_scale) {
  flashinfer::GroupedGemm(a, b, indptr, out,
                          Options(a_scale, b_scale, rows_per_scale, n_per_scale, k_per_scale),
                          StreamOf(a));
}

void GroupedGemmByRow(const TensorView& a, const TensorView& b, const TensorView& row_groups,
                      const TensorView& out, const TensorView& a_scale, const TensorView& b_scale,
                      int64_t rows_per_scale, int64_t n_per_scale, int64_t k_per_scale) {
  flashinfer::GroupedGemmByRow(a, b, row_groups, out,
                               Options(a_scale, b_scale, rows_per_scale, n_per_scale, k_per_scale),
                               StreamOf(a));
}

void GroupedGemmMasked(const TensorView& a, const TensorView& b, const TensorView& num_rows,
                       const TensorView& out, const TensorView& a_scale, const TensorView& b_scale,
                       int64_t rows_per_scale, int64_t n_per_scale, int64_t k_per_scale) {
  flashinfer::GroupedGemmMasked(a, b, num_rows, out,
                                Options(a_scale, b_scale, rows_per_scale, n_per_scale, k_per_scale),
                                StreamOf(a));
}

}  // namespace
}  // namespace flashinfer::bindings

FLASHINFER_EXPORT(matmul, flashinfer::bindings::Matmul)
FLASHINFER_EXPORT(segment_gemm, flashinfer::bindings::SegmentGemm)
FLASHINFER_EXPORT(grouped_gemm, flashinfer::bindings::GroupedGemm)
FLASHINFER_EXPORT(grouped_gemm_by_row, flashinfer::bindings::GroupedGemmByRow)
FLASHINFER_EXPORT(grouped_gemm_masked, flashinfer::bindings::GroupedGemmMasked)
