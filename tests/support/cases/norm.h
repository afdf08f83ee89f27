// SPDX-License-Identifier: Apache-2.0
// Norm problems for tests, benchmarks and `flashinfer check`.
#pragma once

#include <cstdint>
#include <vector>

#include "core/fields.h"
#include "ops/norm.h"

namespace flashinfer::test {

struct NormCase {
  NormKind kind = NormKind::kRms;
  bool adds_residual = false;
  DType dtype = DType::kBF16;
  DType dtype_weight = DType::kBF16;
  DType dtype_out = DType::kBF16;
  int64_t num_rows = 19;
  int64_t num_heads = 0;  ///< 0: rank 2
  int64_t hidden_size = 128;
  int64_t row_padding = 0;  ///< elements between rows
  int64_t offset = 0;       ///< elements before the first: odd ones misalign
  float out_scale = 1.0f;
  bool in_place = false;
};

template <FieldsOf<NormCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(kind)
  FLASHINFER_NAMED(adds_residual)
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(dtype_weight)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(num_rows)
  FLASHINFER_NAMED(num_heads)
  FLASHINFER_NAMED(hidden_size)
  FLASHINFER_NAMED(row_padding)
  FLASHINFER_NAMED(offset)
  FLASHINFER_NAMED(out_scale)
  FLASHINFER_NAMED(in_place)
}

inline NormProblem ProblemOf(const NormCase& c) {
  return {c.kind, c.adds_residual, c.dtype, c.dtype_weight, c.dtype_out, c.hidden_size, 0};
}

/// Every form of norm that `base` can take: rms, gemma, layer, and after adding a residual.
inline std::vector<NormCase> NormForms(const NormCase& base) {
  std::vector<NormCase> cases;
  for (NormKind kind : {NormKind::kRms, NormKind::kGemma, NormKind::kLayer}) {
    for (bool adds_residual : {false, true}) {
      if (kind == NormKind::kLayer && adds_residual) continue;
      cases.push_back(base);
      cases.back().kind = kind;
      cases.back().adds_residual = adds_residual;
    }
  }
  return cases;
}

inline std::vector<NormCase> NormCases() {
  std::vector<NormCase> cases;
  const auto add_forms = [&](const NormCase& base) {
    for (const NormCase& c : NormForms(base)) cases.push_back(c);
  };
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const NormCase base{.dtype = dtype, .dtype_weight = dtype, .dtype_out = dtype};
    for (int64_t hidden : {1, 7, 111, 128, 500, 576, 3420, 3584, 8192, 16384, 32768}) {
      NormCase c = base;
      c.hidden_size = hidden;
      if (hidden > 4096) c.num_rows = 3;
      add_forms(c);
      c.dtype_weight = DType::kF32;
      if (hidden < 1000 && dtype != DType::kF32) add_forms(c);
    }
    for (int64_t rows : {0, 1, 989}) {
      NormCase c = base;
      c.num_rows = rows;
      c.hidden_size = 111;
      add_forms(c);
    }
    for (DType dtype_out : {DType::kE4M3, DType::kE5M2}) {
      for (float out_scale : {1.0f, 0.3f, 1e-3f}) {
        NormCase c = base;
        c.dtype_out = dtype_out;
        c.out_scale = out_scale;
        c.hidden_size = out_scale == 1.0f ? 4096 : 77;
        c.offset = out_scale == 1.0f ? 0 : 1;
        add_forms(c);
      }
    }
    NormCase heads = base;
    heads.num_heads = 9;
    heads.hidden_size = 64;
    add_forms(heads);
    heads.num_heads = 3;
    heads.hidden_size = 96;
    heads.row_padding = 13;
    heads.offset = 1;
    add_forms(heads);
    NormCase in_place = base;
    in_place.hidden_size = 576;
    in_place.row_padding = 1;
    in_place.in_place = true;
    add_forms(in_place);
  }
  // Outputs that go past the caches, also where only some rows are aligned.
  cases.push_back({.dtype = DType::kF32,
                   .dtype_weight = DType::kF32,
                   .dtype_out = DType::kF32,
                   .num_rows = 300,
                   .hidden_size = 3584});
  cases.push_back(
      {.kind = NormKind::kLayer, .num_rows = 600, .hidden_size = 3585, .row_padding = 15});
  for (int64_t rows : {65537, 200000}) {
    const DType kF16 = DType::kF16;
    add_forms({.dtype = kF16,
               .dtype_weight = kF16,
               .dtype_out = kF16,
               .num_rows = rows,
               .hidden_size = 7});
  }
  return cases;
}

}  // namespace flashinfer::test
