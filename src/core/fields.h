// SPDX-License-Identifier: Apache-2.0
// The field list behind every problem and spec: text form and parsing from one place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/check.h"
#include "core/field_list.h"
#include "core/text.h"

namespace flashinfer {

/// `norm hidden_size=576 dtype=bf16`.
template <class Fields>
std::string FieldsText(std::string_view name, const Fields& fields) {
  std::string text(name);
  ForEachField(fields, [&](std::string_view field, const auto& value) {
    text.append(" ").append(field).append("=").append(ValueText(value));
  });
  return text;
}

/// Reads `field=value` words into a default-constructed `Fields`; throws kInvalidArgument naming
/// an unknown field and the known ones, or one that comes again.
template <class Fields>
Fields ParseFields(const std::vector<std::string_view>& words) {
  Fields fields{};
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const size_t equals = word.find('=');
    for (size_t j = 0; j < i; ++j) {
      FLASHINFER_CHECK(word.substr(0, equals) != words[j].substr(0, words[j].find('=')),
                       "{}: is given twice, '{}' and '{}'", word.substr(0, equals), words[j], word);
    }
    bool known = false;
    std::string names;
    ForEachField(fields, [&](std::string_view field, auto& value) {
      names.append(names.empty() ? "" : ", ").append(field);
      if (equals == std::string_view::npos || field != word.substr(0, equals)) return;
      ParseValue(field, word.substr(equals + 1), value);
      known = true;
    });
    FLASHINFER_CHECK(known, "'{}' is not a field=value of this problem; fields: {}", word, names);
  }
  return fields;
}

}  // namespace flashinfer
