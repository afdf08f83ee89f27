// SPDX-License-Identifier: Apache-2.0
// Formatting and parsing of small values.
#include "core/text.h"

#include <charconv>

#include "core/check.h"

namespace flashinfer {
namespace {

template <class T>
void ParseNumber(std::string_view field, std::string_view text, std::string_view accepted,
                 T& value) {
  const char* end = text.data() + text.size();
  T parsed{};
  const auto [rest, error] = std::from_chars(text.data(), end, parsed);
  FLASHINFER_CHECK(error == std::errc{} && rest == end, "{}: '{}' is not {}", field, text,
                   accepted);
  value = parsed;
}

}  // namespace

std::vector<std::string_view> SplitWords(std::string_view text) {
  std::vector<std::string_view> words;
  size_t end = 0;
  while (true) {
    const size_t begin = text.find_first_not_of(" \t", end);
    if (begin == std::string_view::npos) return words;
    end = text.find_first_of(" \t", begin);
    words.push_back(text.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return words;
  }
}

std::string Text(const Dims& dims) {
  std::string text = "[";
  for (int64_t value : dims) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(value);
  }
  return text + "]";
}

std::string Join(const std::vector<std::string>& items, std::string_view separator) {
  std::string text;
  for (const std::string& item : items) {
    if (!text.empty()) text += separator;
    text += item;
  }
  return text;
}

std::string ValueText(bool value) { return value ? "1" : "0"; }
std::string ValueText(int32_t value) { return std::to_string(value); }
std::string ValueText(int64_t value) { return std::to_string(value); }
std::string ValueText(float value) { return fmt::format("{}", value); }
std::string ValueText(DType value) { return std::string(Name(value)); }

void ParseValue(std::string_view field, std::string_view text, bool& value) {
  FLASHINFER_CHECK(text == "0" || text == "1", "{}: '{}' is not 0 or 1", field, text);
  value = text == "1";
}
void ParseValue(std::string_view field, std::string_view text, int32_t& value) {
  ParseNumber(field, text, "a 32-bit integer", value);
}
void ParseValue(std::string_view field, std::string_view text, int64_t& value) {
  ParseNumber(field, text, "a 64-bit integer", value);
}
void ParseValue(std::string_view field, std::string_view text, float& value) {
  ParseNumber(field, text, "a number", value);
}
void ParseValue(std::string_view field, std::string_view text, DType& value) {
  try {
    value = ParseDType(text);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", field, error.what()));
  }
}

}  // namespace flashinfer
