// SPDX-License-Identifier: Apache-2.0
// What all tokenizers share: joining, the checks of UTF-8 and the streaming of text.
#include "engine/tokenizer.h"

#include <algorithm>

#include "engine/read_error.h"
#include "engine/utf8.h"

namespace flashinfer::engine {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

std::vector<int32_t> Tokenizer::Encode(std::string_view text, SpecialTokens special_tokens) const {
  const Segment segment{std::string(text), special_tokens};
  return Encode(std::span(&segment, 1));
}

std::string Tokenizer::Decode(std::span<const int32_t> ids) const {
  std::string text;
  int32_t previous_id = -1;
  for (const int32_t id : ids) {
    std::string_view bytes = Decode(id);
    if (DropsSpaceAfterBos() && previous_id == special_ids().bos && bytes.starts_with(' '))
      bytes.remove_prefix(1);
    text += bytes;
    previous_id = id;
  }
  return text;
}

bool Tokenizer::EndsGeneration(int32_t id) const {
  const std::vector<int32_t>& ends = special_ids().end_ids;
  return std::binary_search(ends.begin(), ends.end(), id);
}

std::string StreamDecoder::Push(int32_t id) {
  const bool after_bos = previous_id_ == tokenizer_.special_ids().bos;
  previous_id_ = id;
  if (tokenizer_.IsSpecial(id)) return {};
  std::string_view bytes = tokenizer_.Decode(id);
  if (after_bos && tokenizer_.DropsSpaceAfterBos() && bytes.starts_with(' '))
    bytes.remove_prefix(1);
  held_ += bytes;

  std::string text;
  size_t position = 0;
  while (position < held_.size()) {
    const Utf8Char next = DecodeUtf8(held_, position);
    if (next.form == Utf8Form::kTruncated) break;
    if (next.form == Utf8Form::kValid)
      text.append(held_, position, next.num_bytes);
    else
      text += kReplacement;
    position += next.num_bytes;
  }
  held_.erase(0, position);
  return text;
}

std::string StreamDecoder::Finish() {
  if (held_.empty()) return {};
  held_.clear();
  return std::string(kReplacement);
}

void CheckUtf8(std::string_view argument, std::string_view text) {
  for (size_t position = 0; position < text.size();) {
    const Utf8Char next = DecodeUtf8(text, position);
    if (next.form != Utf8Form::kValid)
      Fail(ErrorKind::kInvalidArgument,
           "{}: byte {} is 0x{:02x}, which is not UTF-8 there; only UTF-8 text "
           "is accepted",
           argument, position, static_cast<unsigned char>(text[position]));
    position += next.num_bytes;
  }
}

}  // namespace flashinfer::engine
