// SPDX-License-Identifier: Apache-2.0
// Look-up of names.
#include "core/name_table.h"

#include <algorithm>

#include "core/check.h"
#include "core/text.h"

namespace flashinfer {

size_t IndexOfName(std::string_view field, std::string_view text,
                   std::span<const std::string_view> names) {
  const auto found = std::find(names.begin(), names.end(), text);
  FLASHINFER_CHECK(found != names.end(), "{}: '{}' is not one of {}", field, text,
                   Join({names.begin(), names.end()}));
  return static_cast<size_t>(found - names.begin());
}

}  // namespace flashinfer
