// SPDX-License-Identifier: Apache-2.0
// Problems of quantising to 8 bits for tests, benchmarks and `flashinfer check`.
#pragma once

#include <cstdint>
#include <vector>

#include "core/fields.h"
#include "ops/quantize.h"

namespace flashinfer::test {

struct QuantizeCase {
  DType dtype = DType::kBF16;
  DType dtype_q = DType::kE4M3;
  int64_t num_rows = 5;
  int64_t hidden_size = 256;
  int64_t group_size = 128;  ///< 0: one scale for the tensor
  bool dynamic = true;
  bool power_of_two = false;
  bool column_major = false;  ///< scales of a group are adjacent
  int64_t row_padding = 0;    ///< elements between rows of x and of q
};

template <FieldsOf<QuantizeCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(dtype_q)
  FLASHINFER_NAMED(num_rows)
  FLASHINFER_NAMED(hidden_size)
  FLASHINFER_NAMED(group_size)
  FLASHINFER_NAMED(dynamic)
  FLASHINFER_NAMED(power_of_two)
  FLASHINFER_NAMED(column_major)
  FLASHINFER_NAMED(row_padding)
}

inline QuantizeProblem ProblemOf(const QuantizeCase& c) {
  return {false, c.dtype, c.dtype_q, c.dynamic, c.group_size, 0};
}

inline std::vector<QuantizeCase> QuantizeCases() {
  std::vector<QuantizeCase> cases;
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (DType dtype_q : {DType::kE4M3, DType::kE5M2, DType::kI8}) {
      const QuantizeCase base{.dtype = dtype, .dtype_q = dtype_q};
      const auto add = [&](auto change) {
        cases.push_back(base);
        change(cases.back());
      };
      for (int64_t group_size : {0, 256, 128, 32, 1}) {
        for (bool dynamic : {true, false}) {
          add([&](QuantizeCase& c) {
            c.group_size = group_size;
            c.dynamic = dynamic;
            c.row_padding = dynamic ? 3 : 0;
          });
        }
      }
      for (int64_t size : {1, 7, 111, 40000}) {
        add([&](QuantizeCase& c) { c.hidden_size = c.group_size = size; });
        add([&](QuantizeCase& c) {
          c.hidden_size = size;
          c.group_size = 0;
        });
      }
      add([](QuantizeCase& c) { c.power_of_two = c.column_major = true; });
      add([](QuantizeCase& c) { c.num_rows = 0; });
      add([](QuantizeCase& c) {  // one group, for all threads
        c.num_rows = 1;
        c.hidden_size = c.group_size = 40000;
      });
    }
  }
  cases.push_back({.num_rows = 70000, .hidden_size = 4, .group_size = 2});
  return cases;
}

}  // namespace flashinfer::test
