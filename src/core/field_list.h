// SPDX-License-Identifier: Apache-2.0
// How problems and specs name their members, once, for text forms, parsing and hashing.
#pragma once

#include <concepts>
#include <type_traits>

/// Inside a ForEachField(): visits one member under its own name.
#define FLASHINFER_NAMED(field) visit(#field, self.field);

namespace flashinfer {

/// `Self` is `Fields` or `const Fields`: what one field list serves.
///
///     template <FieldsOf<RmsNormProblem> Self, class Visit>
///     void ForEachField(Self& self, Visit&& visit) {
///       FLASHINFER_NAMED(dtype)
///       FLASHINFER_NAMED(hidden_size)
///     }
template <class Self, class Fields>
concept FieldsOf = std::same_as<std::remove_const_t<Self>, Fields>;

}  // namespace flashinfer
