// SPDX-License-Identifier: Apache-2.0
// How problems and specs name their members, once, for text forms, parsing and hashing. Kernels
// include it too: no standard headers here.
#pragma once

/// Inside a ForEachField(): visits one member under its own name.
#define FLASHINFER_NAMED(field) visit(#field, self.field);

namespace flashinfer {

template <class Self, class Fields>
inline constexpr bool kIsFieldsOf = false;
template <class Fields>
inline constexpr bool kIsFieldsOf<Fields, Fields> = true;
template <class Fields>
inline constexpr bool kIsFieldsOf<const Fields, Fields> = true;

/// `Self` is `Fields` or `const Fields`: what one field list serves.
///
///     template <FieldsOf<NormProblem> Self, class Visit>
///     constexpr void ForEachField(Self& self, Visit&& visit) {
///       FLASHINFER_NAMED(dtype)
///       FLASHINFER_NAMED(hidden_size)
///     }
template <class Self, class Fields>
concept FieldsOf = kIsFieldsOf<Self, Fields>;

}  // namespace flashinfer
