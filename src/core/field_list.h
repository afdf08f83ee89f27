// SPDX-License-Identifier: Apache-2.0
// How problems and specs name their members, once. Includes nothing: device code uses it too.
#pragma once

/// Inside a ForEachField(): visits one member under its own name.
#define FLASHINFER_NAMED(field) visit(#field, self.field);

namespace flashinfer {

namespace field_list_detail {
template <class A, class B>
inline constexpr bool kSame = false;
template <class A>
inline constexpr bool kSame<A, A> = true;
}  // namespace field_list_detail

/// `Self` is `Fields` or `const Fields`: what one field list serves.
///
///     template <FieldsOf<NormProblem> Self, class Visit>
///     constexpr void ForEachField(Self& self, Visit&& visit) {
///       FLASHINFER_NAMED(dtype)
///       FLASHINFER_NAMED(hidden_size)
///     }
template <class Self, class Fields>
concept FieldsOf =
    field_list_detail::kSame<Self, Fields> || field_list_detail::kSame<Self, const Fields>;

}  // namespace flashinfer
