// SPDX-License-Identifier: Apache-2.0
// Every operator: how to explain a problem of it, and the rows of the support matrix.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dispatch/choose.h"
#include "flashinfer/backend.h"

namespace flashinfer {

struct OpRow {
  std::string_view name;
  Explanation (*explain)(const std::vector<std::string_view>& fields, Backend backend,
                         Machine machine);
  std::vector<std::string> (*chosen_names)();
  /// Problems that the support matrix shows, as fields: one row each.
  std::span<const std::string_view> matrix;
  bool has_arch;  ///< its problem has the field `arch`: it may have kernels for GPUs
};

std::span<const OpRow> OpTable();

}  // namespace flashinfer
