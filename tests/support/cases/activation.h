// SPDX-License-Identifier: Apache-2.0
// Gated activation problems for tests, benchmarks and `flashinfer check`.
#pragma once

#include <cstdint>
#include <vector>

#include "core/fields.h"
#include "ops/activation.h"

namespace flashinfer::test {

struct ActivationCase {
  ActivationKind kind = ActivationKind::kSilu;
  DType dtype = DType::kBF16;
  DType dtype_out = DType::kBF16;
  int64_t num_tokens = 5;
  int64_t size = 128;
  int64_t row_padding = 0;  ///< elements between rows of x and of out
  float out_scale = 1.0f;
};

template <FieldsOf<ActivationCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(kind)
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(num_tokens)
  FLASHINFER_NAMED(size)
  FLASHINFER_NAMED(row_padding)
  FLASHINFER_NAMED(out_scale)
}

inline ActivationProblem ProblemOf(const ActivationCase& c) {
  return {c.kind, c.dtype, c.dtype_out, c.size, 0};
}

inline std::vector<ActivationCase> ActivationCases() {
  std::vector<ActivationCase> cases;
  const auto add_kinds = [&](ActivationCase c) {
    for (ActivationKind kind :
         {ActivationKind::kSilu, ActivationKind::kGelu, ActivationKind::kGeluTanh}) {
      c.kind = kind;
      cases.push_back(c);
    }
  };
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const ActivationCase base{.dtype = dtype, .dtype_out = dtype};
    for (int64_t size : {0, 1, 7, 16, 111, 1536, 8192, 8193, 28672}) {
      ActivationCase c = base;
      c.size = size;
      add_kinds(c);
    }
    for (int64_t num_tokens : {0, 1, 989}) {
      ActivationCase c = base;
      c.num_tokens = num_tokens;
      c.size = 65;
      add_kinds(c);
    }
    ActivationCase padded = base;
    padded.size = 63;
    padded.row_padding = 5;
    add_kinds(padded);
    for (DType dtype_out : {DType::kE4M3, DType::kE5M2}) {
      for (float out_scale : {1.0f, 0.3f, 1e-3f}) {
        ActivationCase c = padded;
        c.dtype_out = dtype_out;
        c.out_scale = out_scale;
        add_kinds(c);
      }
    }
  }
  add_kinds({.num_tokens = 200000, .size = 3});
  // Outputs that go past the caches.
  cases.push_back(
      {.dtype = DType::kF32, .dtype_out = DType::kF32, .num_tokens = 75, .size = 14336});
  cases.push_back({.num_tokens = 150, .size = 14340, .row_padding = 12});
  return cases;
}

}  // namespace flashinfer::test
