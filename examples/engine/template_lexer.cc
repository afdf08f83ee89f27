// SPDX-License-Identifier: Apache-2.0
// The lexer: tags first, with Jinja's whitespace rules, then the tokens within a tag.
#include "engine/template_lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/template_value.h"
#include "engine/utf8.h"

namespace flashinfer::engine {
namespace {

constexpr std::string_view kWhitespace = " \t\n\r\f\v";

/// Longest first, so that a prefix does not win.
constexpr auto kOperators = std::to_array<std::string_view>(
    {"==", "!=", "<=", ">=", "//", "**", "<", ">", "+", "-", "*", "/", "%",
     "~",  "|",  ".",  ",",  ":",  "(",  ")", "[", "]", "{", "}", "="});

[[noreturn]] void FailSyntax(size_t offset, std::string message) {
  throw TemplateFailure{ErrorKind::kInvalidArgument, offset, std::move(message)};
}

bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<TemplateToken> Run() && {
    while (position_ < source_.size()) LexText();
    Add(TemplateTokenKind::kEnd, source_.size(), "");
    return std::move(tokens_);
  }

 private:
  /// What the end of a tag leaves of the text after it.
  enum class After { kKeep, kTrimNewline, kTrimAll };

  std::string_view Rest() const { return source_.substr(position_); }
  bool At(std::string_view text) const { return Rest().starts_with(text); }
  void Add(TemplateTokenKind kind, size_t offset, std::string_view text) {
    tokens_.push_back({kind, offset, std::string(text)});
  }

  /// Text up to the next tag, then the tag.
  void LexText() {
    const size_t begin = position_;
    size_t tag = source_.find('{', position_);
    while (tag != std::string_view::npos && tag + 1 < source_.size() &&
           std::string_view("{%#").find(source_[tag + 1]) == std::string_view::npos)
      tag = source_.find('{', tag + 1);
    if (tag == std::string_view::npos || tag + 1 >= source_.size()) tag = source_.size();

    std::string_view text = source_.substr(begin, tag - begin);
    position_ = tag;
    const char tag_kind = tag < source_.size() ? source_[tag + 1] : '\0';
    if (tag_kind != '\0') {
      position_ += 2;
      text = TrimBeforeTag(text, tag_kind);
    }
    if (!text.empty()) Add(TemplateTokenKind::kText, begin, text);
    if (tag_kind == '#') LexComment(tag);
    if (tag_kind == '%' || tag_kind == '{') LexTag(tag, tag_kind);
  }

  /// Takes the sign after an opening delimiter and applies it, or lstrip_blocks, to the text.
  std::string_view TrimBeforeTag(std::string_view text, char tag_kind) {
    if (At("-")) {
      ++position_;
      return text.substr(0, text.find_last_not_of(kWhitespace) + 1);
    }
    if (At("+")) {
      ++position_;
      return text;
    }
    if (tag_kind == '{') return text;
    const size_t last = text.find_last_not_of(" \t\f\v");
    const bool line_begins = last == std::string_view::npos ? at_line_begin_ : text[last] == '\n';
    return line_begins ? text.substr(0, last + 1) : text;
  }

  void TrimAfterTag(After after) {
    const size_t begin = position_;
    if (after == After::kTrimAll)
      position_ = std::min(source_.find_first_not_of(kWhitespace, position_), source_.size());
    else if (after == After::kTrimNewline && At("\n"))
      ++position_;
    at_line_begin_ = position_ > begin && source_[position_ - 1] == '\n';
  }

  void LexComment(size_t tag) {
    const size_t end = source_.find("#}", position_);
    if (end == std::string_view::npos) FailSyntax(tag, "a comment has no #}");
    const char sign = end > position_ ? source_[end - 1] : '\0';
    position_ = end + 2;
    TrimAfterTag(sign == '-' ? After::kTrimAll : sign == '+' ? After::kKeep : After::kTrimNewline);
  }

  void LexTag(size_t tag, char tag_kind) {
    const bool is_block = tag_kind == '%';
    Add(is_block ? TemplateTokenKind::kBlockBegin : TemplateTokenKind::kOutputBegin, tag,
        is_block ? "{%" : "{{");
    const std::string_view close = is_block ? "%}" : "}}";
    std::string brackets;
    for (;;) {
      position_ = std::min(source_.find_first_not_of(kWhitespace, position_), source_.size());
      if (position_ == source_.size()) FailSyntax(tag, fmt::format("a tag has no {}", close));
      if (brackets.empty()) {
        const bool has_sign = At("-") || At("+");
        if (Rest().substr(has_sign ? 1 : 0).starts_with(close)) {
          const After plain = is_block ? After::kTrimNewline : After::kKeep;
          const After after = At("-") ? After::kTrimAll : has_sign ? After::kKeep : plain;
          Add(is_block ? TemplateTokenKind::kBlockEnd : TemplateTokenKind::kOutputEnd, position_,
              close);
          position_ += has_sign ? 3 : 2;
          return TrimAfterTag(after);
        }
      }
      LexToken(brackets);
    }
  }

  void LexToken(std::string& brackets) {
    const char c = source_[position_];
    if (IsNameStart(c)) return LexName();
    if (IsDigit(c)) return LexInteger();
    if (c == '\'' || c == '"') return LexString(c);
    const auto* op = std::find_if(kOperators.begin(), kOperators.end(),
                                  [&](std::string_view text) { return At(text); });
    if (op == kOperators.end())
      FailSyntax(position_, fmt::format("unexpected byte 0x{:02x}", static_cast<uint8_t>(c)));
    if (c == '(' || c == '[' || c == '{') brackets.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    if (c == ')' || c == ']' || c == '}') {
      if (brackets.empty() || brackets.back() != c)
        FailSyntax(position_, fmt::format("{} closes nothing", c));
      brackets.pop_back();
    }
    Add(TemplateTokenKind::kOperator, position_, *op);
    position_ += op->size();
  }

  void LexName() {
    size_t end = position_;
    while (end < source_.size() && (IsNameStart(source_[end]) || IsDigit(source_[end]))) ++end;
    Add(TemplateTokenKind::kName, position_, source_.substr(position_, end - position_));
    position_ = end;
  }

  void LexInteger() {
    size_t end = position_;
    while (end < source_.size() && IsDigit(source_[end])) ++end;
    if (end + 1 < source_.size() && source_[end] == '.' && IsDigit(source_[end + 1]))
      throw TemplateFailure{ErrorKind::kUnsupported, position_, "a number with a fraction"};
    if (end - position_ > 18) FailSyntax(position_, "an integer has more than 18 digits");
    Add(TemplateTokenKind::kInteger, position_, source_.substr(position_, end - position_));
    position_ = end;
  }

  void LexString(char quote) {
    const size_t begin = position_++;
    std::string text;
    for (;;) {
      if (position_ >= source_.size()) FailSyntax(begin, "a string has no closing quote");
      const char c = source_[position_++];
      if (c == quote) break;
      if (c == '\\')
        LexEscape(text);
      else
        text.push_back(c);
    }
    Add(TemplateTokenKind::kString, begin, text);
  }

  /// As in Python; a backslash before another character stands for itself.
  void LexEscape(std::string& text) {
    if (position_ >= source_.size()) return;  // the caller reports the missing quote
    constexpr std::string_view kLetters = "ntrabfv0\\'\"";
    constexpr std::string_view kMeanings("\n\t\r\a\b\f\v\0\\'\"", kLetters.size());
    const char c = source_[position_++];
    if (const size_t i = kLetters.find(c); i != std::string_view::npos)
      text.push_back(kMeanings[i]);
    else if (c == 'x' || c == 'u' || c == 'U')
      AppendUtf8(LexHex(c == 'x' ? 2 : c == 'u' ? 4 : 8), text);
    else if (c != '\n')
      text.append(1, '\\').push_back(c);
  }

  int32_t LexHex(size_t num_digits) {
    int64_t value = 0;
    for (size_t i = 0; i < num_digits; ++i, ++position_) {
      const char c = position_ < source_.size() ? source_[position_] : '\0';
      const size_t digit = std::string_view("0123456789abcdef")
                               .find(c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c);
      if (digit == std::string_view::npos)
        FailSyntax(position_, fmt::format("an escape needs {} hexadecimal digits", num_digits));
      value = value * 16 + static_cast<int64_t>(digit);
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
      FailSyntax(position_, fmt::format("the escape U+{:04X} is no character", value));
    return static_cast<int32_t>(value);
  }

  std::string_view source_;
  size_t position_ = 0;
  bool at_line_begin_ = true;
  std::vector<TemplateToken> tokens_;
};

}  // namespace

std::vector<TemplateToken> LexTemplate(std::string_view source) { return Lexer(source).Run(); }

}  // namespace flashinfer::engine
