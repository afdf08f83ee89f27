// SPDX-License-Identifier: Apache-2.0
// Rows of a weight matrix, dequantised: what changes the kernel's code, and what changes per call.
#pragma once

#include "core/field_list.h"
#include "flashinfer/dtype.h"
#include "kernels/linear/weight_planes.h"

namespace flashinfer::kernels {

/// Writes those tokens whose id is one of this matrix' rows. Several matrices may share an output;
/// the one whose first_row is 0 writes NaN for ids that none of them has.
struct GatherRowsParams {
  const int32_t* ids;  ///< [num_tokens]
  void* out;           ///< [num_tokens, cols]
  WeightPlanes weight;
  int64_t ids_stride;
  int64_t out_stride;
  int32_t first_row;
  int32_t num_rows;
  int32_t end_row;  ///< of all matrices
  int32_t cols;
};

/// Every field changes the machine code.
struct GatherRowsSpec {
  using Params = GatherRowsParams;
  static constexpr const char* kName = "gather_rows.simt";
  static constexpr const char* kType = "GatherRowsSpec";
  static constexpr const char* kHeader = "kernels/linear/gather_rows_simt_sm75.cuh";
  static constexpr const char* kNamespace = "gather_rows_simt";
  static constexpr int kMinArch = 75;

  WeightFormat format = WeightFormat::kQ6_K;
  DType dtype_out = DType::kF32;
  int32_t vector_size = 4;  ///< elements of a store: 4 or 1

  friend constexpr bool operator==(const GatherRowsSpec&, const GatherRowsSpec&) = default;
};

template <FieldsOf<GatherRowsSpec> Self, class Visit>
constexpr void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(format)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(vector_size)
}

constexpr int32_t NumThreads(const GatherRowsSpec&) { return 128; }
constexpr int32_t SmemBytes(const GatherRowsSpec&) { return 0; }

}  // namespace flashinfer::kernels
