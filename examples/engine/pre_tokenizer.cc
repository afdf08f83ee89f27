// SPDX-License-Identifier: Apache-2.0
// Hand-written splitters over Unicode classes, equal to the regular expressions of the models.
#include "engine/pre_tokenizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "engine/read_error.h"
#include "engine/utf8.h"

namespace flashinfer::engine {
namespace {

constexpr auto kPreTokenizers = std::to_array<PreTokenizer>({
    {"codeshell", SplitRule::kDigitsThenGpt2, false, false},
    {"command-r", SplitRule::kDigitsThenGpt2, false, false},
    {"dbrx", SplitRule::kLlama3, false, false},
    {"deepseek-r1-qwen", SplitRule::kQwen2, false, false},
    {"default", SplitRule::kDefault, false, false},
    {"falcon3", SplitRule::kLlama3, true, true},
    {"gpt-2", SplitRule::kGpt2, false, false},
    {"llama-bpe", SplitRule::kLlama3, true, true},
    {"llama-v3", SplitRule::kLlama3, true, true},
    {"llama3", SplitRule::kLlama3, true, true},
    {"phi-2", SplitRule::kGpt2, false, false},
    {"qwen2", SplitRule::kQwen2, false, false},
    {"refact", SplitRule::kDigitsThenGpt2, false, false},
    {"smaug-bpe", SplitRule::kLlama3, false, false},
    {"smollm", SplitRule::kDigitsThenGpt2, false, false},
    {"stablelm2", SplitRule::kQwen2, false, false},
    {"starcoder", SplitRule::kDigitsThenGpt2, false, false},
});

/// What the expressions tell apart: \p{L}, \p{N}, \s and the rest.
enum class CharClass : uint8_t { kLetter, kNumber, kSpace, kSymbol };

struct Char {
  size_t offset;       ///< in the text
  int32_t code_point;  ///< -1 for a byte that is not UTF-8
  CharClass char_class;

  bool Is(CharClass wanted) const { return char_class == wanted; }
  bool IsNewline() const { return code_point == '\r' || code_point == '\n'; }
};
using Chars = std::span<const Char>;

/// Unicode's White_Space property, which is what \s means.
bool IsWhitespace(int32_t code_point, utf8proc_category_t category) {
  return (code_point >= '\t' && code_point <= '\r') || code_point == 0x85 ||
         category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

CharClass Classify(int32_t code_point) {
  if (code_point < 0) return CharClass::kSymbol;
  const utf8proc_category_t category = utf8proc_category(code_point);
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO)
    return CharClass::kLetter;
  if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO)
    return CharClass::kNumber;
  return IsWhitespace(code_point, category) ? CharClass::kSpace : CharClass::kSymbol;
}

std::vector<Char> Classify(std::string_view text) {
  std::vector<Char> chars;
  chars.reserve(text.size());
  for (size_t offset = 0; offset < text.size();) {
    const Utf8Char next = DecodeUtf8(text, offset);
    chars.push_back({offset, next.code_point, Classify(next.code_point)});
    offset += next.form == Utf8Form::kValid ? next.num_bytes : 1;
  }
  return chars;
}

/// The first place at or after `i` that is not of this class.
size_t EndOfRun(Chars chars, size_t i, CharClass char_class) {
  while (i < chars.size() && chars[i].Is(char_class)) ++i;
  return i;
}

enum class Case { kLower, kAny };

/// Length of 's 't 're 've 'm 'll 'd at `i`, or 0.
size_t ContractionLength(Chars chars, size_t i, Case letter_case) {
  if (chars[i].code_point != '\'') return 0;
  const auto letter = [&](size_t k) -> int32_t {
    if (k >= chars.size()) return 0;
    const int32_t c = chars[k].code_point;
    return letter_case == Case::kAny && c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
  };
  const int32_t first = letter(i + 1);
  const int32_t second = letter(i + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  const bool two_letters = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                           (first == 'l' && second == 'l');
  return two_letters ? 3 : 0;
}

/// \s+(?!\S)|\s+ : spaces before a word leave their last one to it.
size_t EndOfSpaces(Chars chars, size_t i) {
  const size_t end = EndOfRun(chars, i, CharClass::kSpace);
  return end < chars.size() && end - i > 1 ? end - 1 : end;
}

/// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t EndOfGpt2Word(Chars chars, size_t i) {
  if (const size_t length = ContractionLength(chars, i, Case::kLower)) return i + length;
  const size_t start = chars[i].code_point == ' ' && i + 1 < chars.size() ? i + 1 : i;
  if (chars[start].Is(CharClass::kSpace)) return EndOfSpaces(chars, i);
  return EndOfRun(chars, start, chars[start].char_class);
}

/// With N = `max_digits`:
/// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,N}| ?[^\s\p{L}\p{N}]+[\r\n]*|
/// \s*[\r\n]+|\s+(?!\S)|\s+
size_t EndOfTiktokenWord(Chars chars, size_t i, size_t max_digits) {
  if (const size_t length = ContractionLength(chars, i, Case::kAny)) return i + length;

  const bool has_next = i + 1 < chars.size();
  if (chars[i].Is(CharClass::kLetter)) return EndOfRun(chars, i, CharClass::kLetter);
  if (chars[i].Is(CharClass::kNumber))
    return std::min(EndOfRun(chars, i, CharClass::kNumber), i + max_digits);
  if (!chars[i].IsNewline() && has_next && chars[i + 1].Is(CharClass::kLetter))
    return EndOfRun(chars, i + 1, CharClass::kLetter);

  const size_t start = chars[i].code_point == ' ' && has_next ? i + 1 : i;
  if (chars[start].Is(CharClass::kSymbol)) {
    size_t end = EndOfRun(chars, start, CharClass::kSymbol);
    while (end < chars.size() && chars[end].IsNewline()) ++end;
    return end;
  }

  size_t after_newline = EndOfRun(chars, i, CharClass::kSpace);
  while (after_newline > i && !chars[after_newline - 1].IsNewline()) --after_newline;
  return after_newline > i ? after_newline : EndOfSpaces(chars, i);
}

/// [\p{P}$+<=>^~|]
bool IsDefaultPunctuation(const Char& c) {
  if (c.code_point < 0) return false;
  const utf8proc_category_t category = utf8proc_category(c.code_point);
  if (category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO) return true;
  return c.code_point < 0x80 &&
         std::string_view("$+<=>^~|").find(static_cast<char>(c.code_point)) !=
             std::string_view::npos;
}

/// Collects words as the places where they end.
class Cutter {
 public:
  Cutter(std::string_view text, Chars chars) : text_(text), chars_(chars) {}

  size_t Offset(size_t i) const { return i < chars_.size() ? chars_[i].offset : text_.size(); }

  /// Ends a word before char `i`; nothing where one ends there already.
  void CutBefore(size_t i) {
    const size_t offset = Offset(i);
    if (offset == begin_) return;
    words_.push_back(text_.substr(begin_, offset - begin_));
    begin_ = offset;
  }

  /// Cuts chars [begin, end) as a text of its own: nothing looks beyond it.
  template <class EndOfWord>
  void CutWords(size_t begin, size_t end, EndOfWord end_of_word) {
    const Chars piece = chars_.subspan(begin, end - begin);
    for (size_t i = 0; i < piece.size();) {
      i = end_of_word(piece, i);
      CutBefore(begin + i);
    }
  }

  Chars chars() const { return chars_; }
  std::vector<std::string_view> Words() && { return std::move(words_); }

 private:
  std::string_view text_;
  Chars chars_;
  size_t begin_ = 0;
  std::vector<std::string_view> words_;
};

/// \p{N}, then as GPT-2.
void CutDigitsThenGpt2(Cutter& cutter) {
  const Chars chars = cutter.chars();
  for (size_t i = 0; i < chars.size();) {
    size_t end = i;
    while (end < chars.size() && !chars[end].Is(CharClass::kNumber)) ++end;
    cutter.CutWords(i, end, EndOfGpt2Word);
    if (end < chars.size()) cutter.CutBefore(++end);
    i = end;
  }
}

/// \p{N}+, then [0-9][0-9][0-9], within a word [begin, end) of GPT-2's.
void CutNumbers(Cutter& cutter, size_t begin, size_t end) {
  const auto is_digit = [&](size_t i) {
    const int32_t c = cutter.chars()[i].code_point;
    return c >= '0' && c <= '9';
  };
  for (size_t i = begin; i < end;) {
    if (!cutter.chars()[i].Is(CharClass::kNumber)) {
      ++i;
      continue;
    }
    const size_t end_of_number = std::min(EndOfRun(cutter.chars(), i, CharClass::kNumber), end);
    cutter.CutBefore(i);
    while (i < end_of_number) {
      if (i + 3 <= end_of_number && is_digit(i) && is_digit(i + 1) && is_digit(i + 2)) {
        cutter.CutBefore(i);
        cutter.CutBefore(i += 3);
      } else {
        ++i;
      }
    }
    cutter.CutBefore(end_of_number);
  }
  cutter.CutBefore(end);
}

/// [\p{P}$+<=>^~|]+, then as GPT-2, then numbers.
void CutDefault(Cutter& cutter) {
  const Chars chars = cutter.chars();
  for (size_t i = 0; i < chars.size();) {
    size_t end = i;
    while (end < chars.size() && !IsDefaultPunctuation(chars[end])) ++end;
    const Chars piece = chars.subspan(i, end - i);
    for (size_t k = 0; k < piece.size();) {
      const size_t end_of_word = EndOfGpt2Word(piece, k);
      CutNumbers(cutter, i + k, i + end_of_word);
      k = end_of_word;
    }
    while (end < chars.size() && IsDefaultPunctuation(chars[end])) ++end;
    cutter.CutBefore(end);
    i = end;
  }
}

}  // namespace

const PreTokenizer& FindPreTokenizer(std::string_view name) {
  std::string names;
  for (const PreTokenizer& known : kPreTokenizers) {
    if (known.name == name) return known;
    names.append(names.empty() ? "" : ", ").append(known.name);
  }
  Fail(ErrorKind::kUnsupported,
       "tokenizer.ggml.pre: pre-tokenizer {} is not supported; supported are {}", Quoted(name),
       names);
}

std::vector<std::string_view> SplitIntoWords(SplitRule rule, std::string_view text) {
  const std::vector<Char> chars = Classify(text);
  Cutter cutter(text, chars);
  switch (rule) {
    case SplitRule::kGpt2:
      cutter.CutWords(0, chars.size(), EndOfGpt2Word);
      break;
    case SplitRule::kDigitsThenGpt2:
      CutDigitsThenGpt2(cutter);
      break;
    case SplitRule::kLlama3:
      cutter.CutWords(0, chars.size(),
                      [](Chars piece, size_t i) { return EndOfTiktokenWord(piece, i, 3); });
      break;
    case SplitRule::kQwen2:
      cutter.CutWords(0, chars.size(),
                      [](Chars piece, size_t i) { return EndOfTiktokenWord(piece, i, 1); });
      break;
    case SplitRule::kDefault:
      CutDefault(cutter);
      break;
  }
  return std::move(cutter).Words();
}

}  // namespace flashinfer::engine
