// SPDX-License-Identifier: Apache-2.0
// Dense matrix products as the dispatcher sees them.
#pragma once

#include <cstdint>
#include <span>

#include "core/field_list.h"
#include "ops/linear.h"

namespace flashinfer {

struct GemmProblem {
  DType dtype = DType::kBF16;
  DType dtype_out = DType::kBF16;
  int64_t m = 1024;
  int64_t n = 1024;
  int64_t k = 1024;
};

template <FieldsOf<GemmProblem> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(m)
  FLASHINFER_NAMED(n)
  FLASHINFER_NAMED(k)
}

/// A product packs b as a linear layer packs its weight, then runs that layer once: packing moves
/// n · k elements, the product multiplies m times as many.
struct GemmOp {
  static constexpr std::string_view kName = "gemm";
  using Problem = GemmProblem;
  using Entry = LinearOp::Entry;
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

}  // namespace flashinfer
