// SPDX-License-Identifier: Apache-2.0
// Products of groups of rows for tests, benchmarks and `flashinfer check`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/field_list.h"
#include "core/name_table.h"
#include "flashinfer/tensor.h"

namespace flashinfer::test {

/// How a call says which rows are of which group.
enum class RowForm : uint8_t { kIndptr, kByRow, kMasked };

inline constexpr NameTable<RowForm, 3> kRowForms{{"indptr", "by_row", "masked"}};
inline std::string ValueText(RowForm value) { return std::string(kRowForms[value]); }
inline void ParseValue(std::string_view field, std::string_view text, RowForm& value) {
  kRowForms.Parse(field, text, value);
}

struct GroupedGemmCase {
  RowForm form = RowForm::kIndptr;
  DType dtype_a = DType::kBF16;
  DType dtype_b = DType::kBF16;
  DType dtype_out = DType::kBF16;
  int64_t num_groups = 4;
  int64_t num_rows = 5;  ///< the most of a group; every third group is empty
  int64_t n = 192;
  int64_t k = 128;
  bool has_scales = false;
  int32_t rows_per_scale = 1;
  int32_t n_per_scale = 128;
  int32_t k_per_scale = 128;
  bool scales_are_transposed = false;  ///< stored with rows inside
};

template <FieldsOf<GroupedGemmCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(form)
  FLASHINFER_NAMED(dtype_a)
  FLASHINFER_NAMED(dtype_b)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(num_groups)
  FLASHINFER_NAMED(num_rows)
  FLASHINFER_NAMED(n)
  FLASHINFER_NAMED(k)
  FLASHINFER_NAMED(has_scales)
  FLASHINFER_NAMED(rows_per_scale)
  FLASHINFER_NAMED(n_per_scale)
  FLASHINFER_NAMED(k_per_scale)
  FLASHINFER_NAMED(scales_are_transposed)
}

inline std::vector<GroupedGemmCase> GroupedGemmCases() {
  std::vector<GroupedGemmCase> cases;
  for (RowForm form : {RowForm::kIndptr, RowForm::kByRow, RowForm::kMasked}) {
    for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      cases.push_back({.form = form, .dtype_a = dtype, .dtype_b = dtype, .dtype_out = dtype});
    }
    GroupedGemmCase fp8{
        .form = form, .dtype_a = DType::kE4M3, .dtype_b = DType::kE4M3, .num_rows = 33, .k = 256};
    cases.push_back(fp8);
    fp8.has_scales = true;
    cases.push_back(fp8);
    fp8.dtype_b = DType::kE5M2;
    fp8.dtype_out = DType::kF32;
    fp8.n = 200;  // the last blocks of n and k are smaller
    fp8.k = 300;
    fp8.scales_are_transposed = true;
    cases.push_back(fp8);
    fp8.rows_per_scale = 16;
    fp8.n_per_scale = 7;
    fp8.k_per_scale = 32;
    cases.push_back(fp8);
    cases.push_back({.form = form, .num_groups = 0});
    cases.push_back({.form = form, .num_rows = 0});
    cases.push_back({.form = form, .n = 0});
  }
  return cases;
}

}  // namespace flashinfer::test
