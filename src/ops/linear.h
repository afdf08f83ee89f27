// SPDX-License-Identifier: Apache-2.0
// Linear layers as the dispatcher sees them: problem, packed weights, candidates.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/field_list.h"
#include "dispatch/candidate.h"
#include "flashinfer/gemm.h"

namespace flashinfer {

std::string ValueText(WeightFormat value);
void ParseValue(std::string_view field, std::string_view text, WeightFormat& value);
/// `WeightFormat::kQ4_1`, in the source of kernels.
std::string SourceText(WeightFormat value);

/// What decides who can pack a weight. Activations may have any accepted dtype afterwards.
struct LinearProblem {
  WeightFormat format = WeightFormat::kQ4_1;
  int64_t rows = 4096;
  int64_t cols = 4096;
  int32_t arch = 0;  ///< 0: host memory; 90: a CUDA device of compute capability 9.0
};

template <FieldsOf<LinearProblem> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(format)
  FLASHINFER_NAMED(rows)
  FLASHINFER_NAMED(cols)
  FLASHINFER_NAMED(arch)
}

/// One call of Linear(); strides count elements. Null pointers: no bias, no residual.
struct LinearParams {
  const void* x;
  void* out;
  const float* bias;
  const void* residual;
  int64_t num_tokens;
  int64_t x_stride;
  int64_t out_stride;
  int64_t residual_stride;
  DType dtype_x;
  DType dtype_out;
  float scale = 1.0f;  ///< multiplies the product, before bias and residual
  Stream stream = {};
};

/// One call of PackedWeight::GatherRows().
struct GatherRowsParams {
  const int32_t* ids;
  void* out;
  int64_t num_tokens;
  int64_t ids_stride;
  int64_t out_stride;
  DType dtype_out;
  Stream stream;
};

/// A backend's form of a weight.
class PackedLinear {
 public:
  virtual ~PackedLinear() = default;
  virtual void Run(const LinearParams& params) const = 0;
  virtual void GatherRows(const GatherRowsParams& params) const = 0;
  virtual size_t size_bytes() const = 0;
};

/// Sources of the same cols.
struct PackRequest {
  std::span<const WeightView> sources;
  PackOptions options = {};
};

struct LinearOp {
  static constexpr std::string_view kName = "linear";
  using Problem = LinearProblem;
  using Entry = std::unique_ptr<PackedLinear> (*)(const PackRequest&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

/// Who packed a weight looks its rows up.
struct GatherRowsOp : LinearOp {
  static constexpr std::string_view kName = "gather_rows";
};

}  // namespace flashinfer
