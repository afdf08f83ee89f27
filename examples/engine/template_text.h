// SPDX-License-Identifier: Apache-2.0
// What chat templates do with strings. Marks go where their bytes go; as in Python, a character
// is a code point and space is Unicode's. A byte that is not UTF-8 counts as a character.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/template_value.h"

namespace flashinfer::engine {

enum class StripSide { kLeft, kRight, kBoth };

/// Without the characters at its ends that are in `chars`, or that are space.
MarkedText Strip(const MarkedText& text, std::optional<std::string_view> chars, StripSide side);

/// The parts between `separator`s, which must not be empty, at most `max_splits` + 1 of them.
std::vector<MarkedText> SplitAt(const MarkedText& text, std::string_view separator,
                                int64_t max_splits);

/// The words between runs of space.
std::vector<MarkedText> SplitAtSpace(const MarkedText& text);

/// `from` must not be empty. Every replacement is spent from `budget` before it is made.
MarkedText Replace(const MarkedText& text, std::string_view from, const MarkedText& to,
                   TemplateBudget& budget, size_t offset);

/// By the one-to-one mappings of Unicode.
enum class LetterCase { kUpper, kLower, kCapitalized, kTitle };
MarkedText ToCase(const MarkedText& text, LetterCase letter_case);

/// Where each character begins, and the end of the text.
std::vector<size_t> CharBegins(std::string_view text);

/// What Python prints; throws TemplateFailure for containers.
MarkedText ToText(const TemplateValue& value, size_t offset);

/// JSON with `, ` and `: `, characters unescaped. Throws TemplateFailure for what JSON has not.
MarkedText ToJson(const TemplateValue& value, size_t offset);

}  // namespace flashinfer::engine
