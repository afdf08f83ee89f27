// SPDX-License-Identifier: Apache-2.0
// Dense matrix products against a float64 loop.
#include "support/checks/gemm.h"

#include <algorithm>
#include <cmath>

#include "ops/gemm.h"
#include "support/mismatch.h"

namespace flashinfer::test {
namespace {

/// [rows, cols], or [batch_size, rows, cols].
HostTensor Matrix(DType dtype, int64_t batch_size, Dims shape, bool is_transposed,
                  int64_t padding) {
  const int64_t row_stride = is_transposed ? 1 : shape[1] + padding;
  const int64_t col_stride = is_transposed ? shape[0] + padding : 1;
  if (batch_size == 0) return {dtype, shape, {row_stride, col_stride}};
  const int64_t step = std::max(shape[0] * row_stride, shape[1] * col_stride) + padding;
  return {dtype, {batch_size, shape[0], shape[1]}, {step, row_stride, col_stride}};
}

double At(const HostTensor& matrix, int64_t batch, int64_t i, int64_t j) {
  return matrix.view().rank() == 3 ? matrix.At({batch, i, j}) : matrix.At({i, j});
}

}  // namespace

void CheckGemm(const GemmCase& c, CaseRun& run) {
  std::mt19937_64 rng(61);
  HostTensor a = Matrix(c.dtype_a, c.batch_size, {c.m, c.k}, c.a_is_transposed, c.padding);
  HostTensor b = Matrix(c.dtype_b, c.batch_size, {c.n, c.k}, c.b_is_transposed, c.padding);
  a.FillNormal(rng);
  b.FillNormal(rng, 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, c.k))));
  std::vector<double> expected;
  for (int64_t batch = 0; batch < std::max<int64_t>(1, c.batch_size); ++batch) {
    for (int64_t i = 0; i < c.m; ++i) {
      for (int64_t j = 0; j < c.n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < c.k; ++k) sum += At(a, batch, i, k) * At(b, batch, j, k);
        expected.push_back(sum * c.a_scale * c.b_scale);
      }
    }
  }
  run.ForEachCandidate<GemmOp>(
      {c.dtype_a, c.dtype_b, c.dtype_out, c.m, c.n, c.k}, c, [&](Trial& trial) {
        HostTensor out = Matrix(c.dtype_out, c.batch_size, {c.m, c.n}, false, c.padding);
        Gemm(a, b, out, {.backend = trial.backend(), .a_scale = c.a_scale, .b_scale = c.b_scale});
        trial.Expect("out", Mismatch(out, expected, ToleranceOf(c.dtype_out, c.k)));
      });
}

}  // namespace flashinfer::test
