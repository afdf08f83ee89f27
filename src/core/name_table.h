// SPDX-License-Identifier: Apache-2.0
// Names of an enumeration's values, for its text form and for reading that.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace flashinfer {

/// Position of `text` among `names`. Throws kInvalidArgument naming `field` and all that it may be.
size_t IndexOfName(std::string_view field, std::string_view text,
                   std::span<const std::string_view> names);

/// One name a value, in the order of the enumeration, which counts from 0.
template <class Enum, size_t kCount>
struct NameTable {
  std::string_view names[kCount];

  constexpr std::string_view operator[](Enum value) const {
    return names[static_cast<size_t>(value)];
  }
  void Parse(std::string_view field, std::string_view text, Enum& value) const {
    value = static_cast<Enum>(IndexOfName(field, text, names));
  }
};

}  // namespace flashinfer
