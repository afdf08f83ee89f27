// SPDX-License-Identifier: Apache-2.0
// Quantisation to 8 bits and back on CUDA cores: what changes its code, and what changes per call.
#pragma once

#include "core/field_list.h"
#include "flashinfer/dtype.h"
#include "kernels/portable.h"

namespace flashinfer::kernels {

/// What a launch does. One scale of a whole tensor takes four of them: clear, amax, scale, narrow.
inline constexpr int32_t kQuantizeNarrow = 0;   ///< q from x and scales
inline constexpr int32_t kQuantizeDynamic = 1;  ///< scales and q from x, a group of threads a scale
inline constexpr int32_t kQuantizeWiden = 2;    ///< x from q and scales
inline constexpr int32_t kQuantizeClear = 3;    ///< scales[0] = 0
inline constexpr int32_t kQuantizeAmax = 4;   ///< scales[0] = the largest finite |x|, after kClear
inline constexpr int32_t kQuantizeScale = 5;  ///< scales[0] from that

/// Spans of span_size columns of a row, the last one maybe shorter; span s of all is span
/// s % spans_per_row of row s / spans_per_row. Where a span has a scale of its own it is a group.
/// Strides count elements; 0 and 0 of scales: there is one.
struct QuantizeKernelParams {
  const void* from;  ///< x, when widening q
  void* to;          ///< q, when widening x
  float* scales;
  int64_t num_spans;
  int64_t spans_per_row;
  int64_t span_size;
  int64_t hidden_size;
  int64_t from_stride;
  int64_t to_stride;
  int64_t scales_stride_row;
  int64_t scales_stride_span;
  float min_scale;
  int32_t power_of_two;  ///< 1: a computed scale is rounded up to one
};

/// Every field changes the machine code.
struct QuantizeSpec {
  using Params = QuantizeKernelParams;
  static constexpr const char* kName = "quantize.simt";
  static constexpr const char* kType = "QuantizeSpec";
  static constexpr const char* kHeader = "kernels/quantize/quantize_simt_sm75.cuh";
  static constexpr const char* kNamespace = "quantize_simt";
  static constexpr int kMinArch = 75;

  DType dtype = DType::kBF16;  ///< of the floats
  DType dtype_q = DType::kE4M3;
  int32_t step = kQuantizeDynamic;  ///< one of the kQuantize constants
  int32_t vector_size = 8;          ///< elements of an access
  int32_t span_threads = 16;        ///< that share a span: a power of two, 1 to 256

  friend constexpr bool operator==(const QuantizeSpec&, const QuantizeSpec&) = default;
};

template <FieldsOf<QuantizeSpec> Self, class Visit>
constexpr void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(dtype_q)
  FLASHINFER_NAMED(step)
  FLASHINFER_NAMED(vector_size)
  FLASHINFER_NAMED(span_threads)
}

constexpr int32_t NumThreads(const QuantizeSpec&) { return 256; }

/// Loads of a thread are on their way together: they want more registers than full residency
/// leaves.
constexpr int32_t MinBlocksPerSm(const QuantizeSpec&) { return 4; }

/// Maxima of warps, where a span has several.
constexpr int32_t SmemBytes(const QuantizeSpec& s) { return s.span_threads > 32 ? 32 : 0; }

constexpr int32_t QuantizeBlockSpans(const QuantizeSpec& s) {
  return NumThreads(s) / s.span_threads;
}

/// Threads that share a span: as many as it has accesses, up to the block.
constexpr int32_t QuantizeSpanThreads(int64_t span_size, int32_t vector_size) {
  int32_t threads = 1;
  while (threads < 256 && int64_t{threads} * vector_size < span_size) threads *= 2;
  return threads;
}

}  // namespace flashinfer::kernels
