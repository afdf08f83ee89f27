// SPDX-License-Identifier: Apache-2.0
// Products of row segments against a float64 loop.
#include "support/checks/segment_gemm.h"

#include <algorithm>
#include <cmath>

#include "ops/segment_gemm.h"
#include "support/mismatch.h"

namespace flashinfer::test {
namespace {

/// Lengths of the segments, the first empty, and each segment's weight.
struct Segments {
  HostTensor indptr, weights;
  Segments(const SegmentGemmCase& c, std::mt19937_64& rng)
      : indptr(DType::kI64, {c.num_segments + 1}), weights(DType::kI32, {c.num_segments}) {
    indptr.Set({0}, 0);
    for (int64_t i = 0; i < c.num_segments; ++i) {
      const int64_t length =
          i % 3 == 0 ? 0 : static_cast<int64_t>(rng() % static_cast<uint64_t>(2 * c.num_rows + 1));
      indptr.Set({i + 1}, indptr.At({i}) + static_cast<double>(length));
      weights.Set({i}, c.has_weight_indices
                           ? static_cast<double>(rng() % static_cast<uint64_t>(c.num_weights))
                           : static_cast<double>(i));
    }
  }
};

}  // namespace

void CheckSegmentGemm(const SegmentGemmCase& c, CaseRun& run) {
  std::mt19937_64 rng(67);
  const Segments segments(c, rng);
  const auto num_rows = static_cast<int64_t>(segments.indptr.At({c.num_segments}));
  HostTensor x(c.dtype, {num_rows, c.d_in}, {c.d_in + 3, 1});
  const int64_t step = c.d_out * c.d_in + 5;
  HostTensor weights(c.dtype, {c.num_weights, c.d_out, c.d_in},
                     c.weights_are_transposed ? Dims{step, 1, c.d_out} : Dims{step, c.d_in, 1});
  x.FillNormal(rng);
  weights.FillNormal(rng, 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, c.d_in))));
  std::vector<double> expected;
  for (int64_t i = 0; i < c.num_segments; ++i) {
    const auto w = static_cast<int64_t>(segments.weights.At({i}));
    for (auto t = static_cast<int64_t>(segments.indptr.At({i}));
         t < static_cast<int64_t>(segments.indptr.At({i + 1})); ++t) {
      for (int64_t j = 0; j < c.d_out; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < c.d_in; ++k) sum += x.At({t, k}) * weights.At({w, j, k});
        expected.push_back(sum);
      }
    }
  }
  run.ForEachCandidate<SegmentGemmOp>(
      {c.dtype, c.dtype_out, c.d_in, c.d_out}, c, [&](Trial& trial) {
        HostTensor out(c.dtype_out, {num_rows, c.d_out}, {c.d_out + 1, 1}, 2);
        SegmentGemmOptions options{.backend = trial.backend()};
        if (c.has_weight_indices) options.weight_indices = segments.weights;
        SegmentGemm(x, weights, segments.indptr, out, options);
        trial.Expect("out", Mismatch(out, expected, ToleranceOf(c.dtype_out, c.d_in)));
      });
}

}  // namespace flashinfer::test
