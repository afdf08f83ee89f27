// SPDX-License-Identifier: Apache-2.0
// Checks of a problem that came as text: values that no call could have.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/check.h"
#include "core/text.h"
#include "jit/key.h"
#include "ops/attention.h"

namespace flashinfer {

/// Throws kInvalidArgument for an architecture that no kernel is compiled for.
inline void CheckArch(int32_t arch) {
  std::vector<std::string> known{"0"};
  bool is_known = arch == 0;
  for (const jit::Target target : jit::AllTargets()) {
    is_known |= target.arch == arch;
    known.push_back(std::to_string(target.arch));
  }
  FLASHINFER_CHECK(is_known, "arch: is {}, accepted: {}", arch, Join(known));
}

/// Throws kInvalidArgument, naming the field.
template <class Problem>
void CheckProblem(const Problem& problem) {
  // 0 means something: all, none, or a product without elements.
  constexpr std::array<std::string_view, 7> kZero{
      "group_size", "page_size", "fixed_split_size", "head_dim_kpe", "m", "n", "k"};
  ForEachField(problem, [&](std::string_view field, const auto& value) {
    using Value = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<Value, int32_t> || std::is_same_v<Value, int64_t>) {
      if (field == "arch") return CheckArch(static_cast<int32_t>(value));
      const bool takes_zero = std::find(kZero.begin(), kZero.end(), field) != kZero.end();
      const Value least = field == "window_left" ? -1 : takes_zero ? 0 : 1;
      FLASHINFER_CHECK(value >= least, "{}: is {}, expected {} or more", field, value, least);
    }
  });
  if constexpr (std::is_same_v<Problem, AttentionProblem>) CheckAttentionProblem(problem);
}

}  // namespace flashinfer
