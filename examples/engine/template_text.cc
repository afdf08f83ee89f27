// SPDX-License-Identifier: Apache-2.0
// Operations on marked strings.
#include "engine/template_text.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>

#include "engine/utf8.h"

namespace flashinfer::engine {
namespace {

bool IsSpace(int32_t c) {
  return (c >= '\t' && c <= '\r') || (c >= 0x1C && c <= ' ') || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool IsLetter(int32_t c) {
  if (c < 0) return false;
  const utf8proc_category_t category = utf8proc_category(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

/// A character with a byte for a code point where it is not UTF-8.
struct Char {
  int32_t code_point;  // -1 for such a byte
  size_t num_bytes;
};

Char CharAt(std::string_view text, size_t position) {
  const Utf8Char c = DecodeUtf8(text, position);
  if (c.form != Utf8Form::kValid) return {-1, 1};
  return {c.code_point, static_cast<size_t>(c.num_bytes)};
}

/// The character that ends before `end`, which must not be 0.
Char CharBefore(std::string_view text, size_t end) {
  for (size_t length = 2; length <= std::min<size_t>(4, end); ++length) {
    const Char c = CharAt(text.substr(0, end), end - length);
    if (c.num_bytes == length) return c;
  }
  return CharAt(text.substr(0, end), end - 1);
}

bool IsIn(std::string_view chars, std::string_view text, size_t position, const Char& c) {
  for (size_t i = 0; i < chars.size();) {
    const size_t length = CharAt(chars, i).num_bytes;
    if (chars.substr(i, length) == text.substr(position, c.num_bytes)) return true;
    i += length;
  }
  return false;
}

void AppendJsonString(const MarkedText& text, MarkedText& json) {
  const auto plain = [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\';
  };
  constexpr std::string_view kNamed = "\"\\\n\r\t\b\f";
  constexpr std::string_view kNames = "\"\\nrtbf";
  json.Append("\"", MarkedText::kTemplateMark);
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text.bytes[i];
    const size_t named = kNamed.find(c);
    if (plain(c))
      json.Append(std::string_view(&c, 1), text.marks[i]);
    else if (named != std::string_view::npos)
      json.Append(fmt::format("\\{}", kNames[named]), text.marks[i]);
    else
      json.Append(fmt::format("\\u{:04x}", c), text.marks[i]);
  }
  json.Append("\"", MarkedText::kTemplateMark);
}

void AppendJson(const TemplateValue& value, size_t offset, MarkedText& json) {
  const auto put = [&](std::string_view text) { json.Append(text, MarkedText::kTemplateMark); };
  if (value.IsNone()) return put("null");
  if (const bool* flag = value.AsBool()) return put(*flag ? "true" : "false");
  if (const int64_t* number = value.AsInt()) return put(std::to_string(*number));
  if (const MarkedText* text = value.AsText()) return AppendJsonString(*text, json);
  if (const auto* list = value.AsList()) {
    for (size_t i = 0; i < list->items.size(); ++i) {
      put(i == 0 ? "[" : ", ");
      AppendJson(list->items[i], offset, json);
    }
    return put(list->items.empty() ? "[]" : "]");
  }
  if (const auto* dict = value.AsDict()) {
    for (size_t i = 0; i < dict->members.size(); ++i) {
      put(i == 0 ? "{" : ", ");
      AppendJsonString(MarkedText::FromTemplate(dict->members[i].first), json);
      put(": ");
      AppendJson(dict->members[i].second, offset, json);
    }
    return put(dict->members.empty() ? "{}" : "}");
  }
  throw TemplateFailure{ErrorKind::kInvalidArgument, offset,
                        fmt::format("tojson of {}", value.TypeName())};
}

}  // namespace

MarkedText Strip(const MarkedText& text, std::optional<std::string_view> chars, StripSide side) {
  const auto goes = [&](size_t position, const Char& c) {
    return chars ? IsIn(*chars, text.bytes, position, c) : IsSpace(c.code_point);
  };
  size_t begin = 0;
  size_t end = text.size();
  while (side != StripSide::kRight && begin < end) {
    const Char c = CharAt(text.bytes, begin);
    if (!goes(begin, c)) break;
    begin += c.num_bytes;
  }
  while (side != StripSide::kLeft && begin < end) {
    const Char c = CharBefore(text.bytes, end);
    if (c.num_bytes > end - begin || !goes(end - c.num_bytes, c)) break;
    end -= c.num_bytes;
  }
  return text.Slice(begin, end);
}

std::vector<MarkedText> SplitAt(const MarkedText& text, std::string_view separator,
                                int64_t max_splits) {
  std::vector<MarkedText> parts;
  size_t begin = 0;
  while (max_splits < 0 || std::ssize(parts) < max_splits) {
    const size_t end = text.bytes.find(separator, begin);
    if (end == std::string::npos) break;
    parts.push_back(text.Slice(begin, end));
    begin = end + separator.size();
  }
  parts.push_back(text.Slice(begin, text.size()));
  return parts;
}

std::vector<MarkedText> SplitAtSpace(const MarkedText& text) {
  std::vector<MarkedText> words;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size();) {
    const Char c = i < text.size() ? CharAt(text.bytes, i) : Char{' ', 1};
    if (IsSpace(c.code_point)) {
      if (i > begin) words.push_back(text.Slice(begin, i));
      begin = i + c.num_bytes;
    }
    i += c.num_bytes;
  }
  return words;
}

MarkedText Replace(const MarkedText& text, std::string_view from, const MarkedText& to,
                   TemplateBudget& budget, size_t offset) {
  MarkedText result;
  size_t begin = 0;
  for (size_t end; (end = text.bytes.find(from, begin)) != std::string::npos;) {
    budget.SpendBytes(end - begin + to.size(), offset);
    result.Append(text.Slice(begin, end));
    result.Append(to);
    begin = end + from.size();
  }
  result.Append(text.Slice(begin, text.size()));
  return result;
}

MarkedText ToCase(const MarkedText& text, LetterCase letter_case) {
  MarkedText result;
  bool in_word = false;
  for (size_t i = 0; i < text.size();) {
    const Char c = CharAt(text.bytes, i);
    const bool begins = letter_case == LetterCase::kTitle ? !in_word : i == 0;
    const bool upper =
        letter_case == LetterCase::kUpper || (letter_case != LetterCase::kLower && begins);
    const std::string_view marks = std::string_view(text.marks).substr(i, c.num_bytes);
    const char mark = marks.find(MarkedText::kUserMark) == std::string_view::npos
                          ? MarkedText::kTemplateMark
                          : MarkedText::kUserMark;
    if (c.code_point < 0) {
      result.Append(std::string_view(text.bytes).substr(i, 1), mark);
    } else {
      std::string mapped;
      AppendUtf8(upper ? utf8proc_toupper(c.code_point) : utf8proc_tolower(c.code_point), mapped);
      result.Append(mapped, mark);
    }
    in_word = IsLetter(c.code_point);
    i += c.num_bytes;
  }
  return result;
}

std::vector<size_t> CharBegins(std::string_view text) {
  std::vector<size_t> begins = {0};
  while (begins.back() < text.size())
    begins.push_back(begins.back() + CharAt(text, begins.back()).num_bytes);
  return begins;
}

MarkedText ToText(const TemplateValue& value, size_t offset) {
  if (const MarkedText* text = value.AsText()) return *text;
  if (value.IsUndefined()) return {};
  if (value.IsNone()) return MarkedText::FromTemplate("None");
  if (const bool* flag = value.AsBool()) return MarkedText::FromTemplate(*flag ? "True" : "False");
  if (const int64_t* number = value.AsInt())
    return MarkedText::FromTemplate(std::to_string(*number));
  throw TemplateFailure{ErrorKind::kUnsupported, offset,
                        fmt::format("the text of a {}", value.TypeName())};
}

MarkedText ToJson(const TemplateValue& value, size_t offset) {
  MarkedText json;
  AppendJson(value, offset, json);
  return json;
}

}  // namespace flashinfer::engine
