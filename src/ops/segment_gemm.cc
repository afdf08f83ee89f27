// SPDX-License-Identifier: Apache-2.0
// Products of row segments with a weight each: check, sort by weight, choose, run.
#include "ops/segment_gemm.h"

#include <algorithm>

#include "core/check.h"
#include "core/log.h"
#include "dispatch/choose.h"

namespace flashinfer {

int64_t IntAt(const TensorView& tensor, int64_t i) {
  const int64_t at = i * tensor.stride(0);
  return tensor.dtype() == DType::kI64 ? tensor.data_as<const int64_t>()[at]
                                       : tensor.data_as<const int32_t>()[at];
}

std::vector<GemmSegment> ReadSegments(const TensorView& indptr, const TensorView& weight_indices,
                                      const SegmentSources& sources) {
  const int64_t num_rows = sources.x.shape(0);
  const int64_t num_weights = sources.weights.shape(0);
  CheckTensor("indptr", indptr).On({}).IsOneOf({DType::kI32, DType::kI64}).Rank(1);
  FLASHINFER_CHECK(indptr.shape(0) >= 1, "indptr: is empty, expected [num_segments + 1]");
  const int64_t count = indptr.shape(0) - 1;
  if (weight_indices.defined()) {
    CheckTensor("weight_indices", weight_indices).On({}).IsOneOf({DType::kI32, DType::kI64});
    CheckTensor("weight_indices", weight_indices).Shape({count});
  } else {
    FLASHINFER_CHECK(count == num_weights, "{}: are {}, indptr has {} segments",
                     sources.weights_name, num_weights, count);
  }
  std::vector<GemmSegment> segments;
  segments.reserve(static_cast<size_t>(count));
  FLASHINFER_CHECK(IntAt(indptr, 0) == 0, "indptr[0]: is {}, expected 0", IntAt(indptr, 0));
  for (int64_t i = 0; i < count; ++i) {
    const GemmSegment segment{weight_indices.defined() ? IntAt(weight_indices, i) : i,
                              IntAt(indptr, i), IntAt(indptr, i + 1)};
    FLASHINFER_CHECK(segment.end >= segment.begin, "indptr[{}]: is {}, after {}", i + 1,
                     segment.end, segment.begin);
    FLASHINFER_CHECK(segment.weight >= 0 && segment.weight < num_weights,
                     "weight_indices[{}]: is {}, accepted: 0 to {}", i, segment.weight,
                     num_weights - 1);
    if (segment.end > segment.begin) segments.push_back(segment);
  }
  FLASHINFER_CHECK(IntAt(indptr, count) == num_rows, "indptr[{}]: is {}, {} has {} rows", count,
                   IntAt(indptr, count), sources.x_name, num_rows);
  std::stable_sort(segments.begin(), segments.end(),
                   [](const GemmSegment& a, const GemmSegment& b) { return a.weight < b.weight; });
  return segments;
}

void SegmentGemm(const TensorView& x, const TensorView& weights, const TensorView& indptr,
                 const TensorView& out, const SegmentGemmOptions& options, Stream) {
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("segment_gemm", {{"x", x},
                             {"weights", weights},
                             {"indptr", indptr},
                             {"out", out},
                             {"weight_indices", options.weight_indices}});
  }
  CheckTensor("x", x).OnCpuAlone().IsOneOf({DType::kF32, DType::kF16, DType::kBF16}).Rank(2);
  CheckTensor("weights", weights).On({}).Is(x.dtype()).Shape({-1, -1, x.shape(1)});
  CheckTensor("out", out).On({}).IsOneOf({x.dtype(), DType::kF32});
  CheckTensor("out", out).Shape({x.shape(0), weights.shape(1)}).LastDimDense().NoOverlap();
  CheckTensor("out", out).Apart("x", x).Apart("weights", weights);
  const std::vector<GemmSegment> segments =
      ReadSegments(indptr, options.weight_indices, {"x", x, "weights", weights});
  const auto& run = Choose<SegmentGemmOp>({x.dtype(), out.dtype(), x.shape(1), weights.shape(1)},
                                          options.backend);
  if (out.num_elements() > 0 && x.shape(1) == 0) {
    FillZero(out);
  } else if (out.num_elements() > 0) {
    run({.segments = segments,
         .x = MatrixOf(x),
         .weights = MatrixOf(weights[0]),
         .weight_stride = weights.stride(0),
         .out = out.data(),
         .out_stride = out.stride(0),
         .dtype_out = out.dtype()});
  }
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("segment_gemm", {{"out", out}});
}

}  // namespace flashinfer
