// SPDX-License-Identifier: Apache-2.0
// Cuts the source of a chat template into text, tags and the tokens inside them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flashinfer::engine {

enum class TemplateTokenKind {
  kText,         ///< literal text, whitespace control applied
  kOutputBegin,  ///< {{
  kOutputEnd,
  kBlockBegin,  ///< {%
  kBlockEnd,
  kName,
  kInteger,
  kString,  ///< text is what it means, escapes resolved
  kOperator,
  kEnd,
};

struct TemplateToken {
  TemplateTokenKind kind;
  size_t offset;  ///< in the source
  std::string text;
};

/// The tokens of `source`, the last of which is kEnd. Newlines must be `\n`. Throws
/// TemplateFailure.
std::vector<TemplateToken> LexTemplate(std::string_view source);

}  // namespace flashinfer::engine
