// SPDX-License-Identifier: Apache-2.0
// The kernel families: what turns the text form of a spec into a unit.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "flashinfer/attention/variant.h"
#include "jit/source.h"

namespace flashinfer::cuda {

struct KernelFamily {
  std::string_view name;  ///< `norm.simt`
  std::string_view header;
  int32_t min_arch;
  std::string default_spec;  ///< a spec with every field, as an example
  /// Throws kInvalidArgument naming the fields when one is wrong.
  jit::Unit (*render)(const std::vector<std::string_view>& fields);
  /// The same with a user's variant; null: the family takes none.
  jit::Unit (*render_variant)(const std::vector<std::string_view>& fields,
                              const AttentionVariant& variant) = nullptr;
};

std::span<const KernelFamily> KernelFamilies();

/// The unit of a spec in its text form; throws kInvalidArgument that lists the families or fields.
/// A spec that names a variant, `variant=…`, needs that one.
jit::Unit RenderText(std::string_view spec, const AttentionVariant* variant = nullptr);

}  // namespace flashinfer::cuda
