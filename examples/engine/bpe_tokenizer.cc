// SPDX-License-Identifier: Apache-2.0
// Byte-level BPE: special tokens first, then words, then merges.
#include "engine/bpe_tokenizer.h"

#include <algorithm>
#include <array>
#include <limits>

#include "engine/bpe_merges.h"
#include "engine/byte_alphabet.h"
#include "engine/pre_tokenizer.h"
#include "engine/read_error.h"
#include "engine/token_names.h"

namespace flashinfer::engine {
namespace {

/// Names of control tokens that end a turn or a text, whatever the file calls EOS.
constexpr auto kEndNames =
    std::to_array<std::string_view>({"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>",
                                     "<|endoftext|>", "<|end_of_text|>", "<end_of_turn>", "<EOT>"});

bool IsControl(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUnknown || type == TokenType::kUnused;
}

/// The bytes that a token stands for; what is not in the byte alphabet stands for itself.
std::string TokenBytes(std::string text, TokenType type) {
  if (!IsControl(type) && type != TokenType::kUserDefined)
    if (auto bytes = DecodeByteAlphabet(text)) return *std::move(bytes);
  return text;
}

void CheckVocabulary(const BpeVocabulary& vocabulary) {
  const size_t size = vocabulary.tokens.size();
  CheckInput(size > 0 && size <= std::numeric_limits<int32_t>::max() / 2,
             "tokenizer.ggml.tokens: has {} tokens; 1 to 2^30 are accepted", size);
  CheckInput(vocabulary.types.empty() || vocabulary.types.size() == size,
             "tokenizer.ggml.token_type: has {} types, there are {} tokens",
             vocabulary.types.size(), size);
  const SpecialIds& special = vocabulary.special_ids;
  const auto check_id = [&](std::string_view name, int32_t id) {
    CheckInput(id >= -1 && id < static_cast<int64_t>(size),
               "tokenizer.ggml.{}: is {}, the vocabulary has {} tokens", name, id, size);
  };
  check_id("bos_token_id", special.bos);
  check_id("eos_token_id", special.eos);
  check_id("eot_token_id", special.eot);
  for (const int32_t id : special.end_ids) check_id("end_ids", id);
}

}  // namespace

struct BpeTokenizer::Impl {
  PreTokenizer pre_tokenizer;
  std::vector<std::string> token_bytes;
  std::vector<TokenType> types;
  SpecialIds special_ids;
  TokenNames plain_names;  // user-defined tokens
  TokenNames parse_names;  // and control tokens
  std::unique_ptr<BpeMerges> merges;

  explicit Impl(BpeVocabulary vocabulary)
      : pre_tokenizer(FindPreTokenizer(vocabulary.pre_tokenizer)),
        types(std::move(vocabulary.types)),
        special_ids(std::move(vocabulary.special_ids)) {
    types.resize(vocabulary.tokens.size(), TokenType::kNormal);
    token_bytes.reserve(types.size());
    for (size_t id = 0; id < types.size(); ++id)
      token_bytes.push_back(TokenBytes(std::move(vocabulary.tokens[id]), types[id]));
    AddNames();
    AddMerges(vocabulary.merges);
    CompleteSpecialIds();
  }

  void AddNames() {
    for (size_t i = 0; i < types.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      if (types[i] == TokenType::kUserDefined) plain_names.Add(token_bytes[i], id);
      if (types[i] == TokenType::kUserDefined || IsControl(types[i]))
        parse_names.Add(token_bytes[i], id);
    }
    plain_names.Finish();
    parse_names.Finish();
  }

  /// Control tokens stay unknown to merging, so that text cannot yield them.
  void AddMerges(const std::vector<std::string>& rules) {
    std::vector<std::string_view> mergeable(types.size());
    for (size_t id = 0; id < types.size(); ++id)
      if (!IsControl(types[id])) mergeable[id] = token_bytes[id];
    merges = std::make_unique<BpeMerges>(mergeable, rules.size());
    for (size_t i = 0; i < rules.size(); ++i) {
      const std::string_view rule = rules[i];
      const size_t space = rule.find(' ', 1);
      if (space == std::string_view::npos || space + 1 == rule.size())
        Fail(ErrorKind::kInvalidArgument,
             "tokenizer.ggml.merges: entry {} is {}, which is not two symbols with a space between",
             i, Quoted(rule));
      const auto left = DecodeByteAlphabet(rule.substr(0, space));
      const auto right = DecodeByteAlphabet(rule.substr(space + 1));
      // A symbol that no bytes spell never comes up.
      if (left && right) merges->Add(*left, *right);
    }
  }

  void CompleteSpecialIds() {
    std::vector<int32_t>& ends = special_ids.end_ids;
    for (const std::string_view name : kEndNames) {
      const TokenNames::Match match = parse_names.LongestAtFrontOf(name);
      if (match.num_bytes != name.size() || !IsControl(types[match.id])) continue;
      ends.push_back(match.id);
      const bool ends_turn = name != "<|endoftext|>" && name != "<|end_of_text|>";
      if (special_ids.eot < 0 && ends_turn) special_ids.eot = match.id;
    }
    if (special_ids.eos >= 0) ends.push_back(special_ids.eos);
    if (special_ids.eot >= 0) ends.push_back(special_ids.eot);
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  }

  /// Appends the ids of text in which no names are left.
  void EncodeWords(std::string_view text, BpeMerges::Scratch& scratch,
                   std::vector<int32_t>& ids) const {
    for (const std::string_view word : SplitIntoWords(pre_tokenizer.rule, text)) {
      const int32_t whole = pre_tokenizer.whole_words_first ? merges->Find(word) : -1;
      if (whole >= 0)
        ids.push_back(whole);
      else
        merges->Merge(word, scratch, ids);
    }
  }

  std::string_view BytesOf(int32_t id) const {
    CheckInput(id >= 0 && static_cast<size_t>(id) < token_bytes.size(),
               "token id: is {}, the vocabulary has {} tokens", id, token_bytes.size());
    return token_bytes[id];
  }
};

BpeTokenizer::BpeTokenizer(BpeVocabulary vocabulary) {
  CheckVocabulary(vocabulary);
  impl_ = std::make_unique<const Impl>(std::move(vocabulary));
}

BpeTokenizer::~BpeTokenizer() = default;

std::vector<int32_t> BpeTokenizer::Encode(std::span<const Segment> segments) const {
  std::string text;
  for (const Segment& segment : segments) text += segment.text;
  CheckInput(text.size() <= std::numeric_limits<int32_t>::max(),
             "text: has {} bytes, at most 2^31 - 1 are accepted", text.size());

  std::vector<int32_t> ids;
  BpeMerges::Scratch scratch;
  size_t words_begin = 0;  // of the stretch that has no names
  size_t begin = 0;
  for (size_t i = 0; i < segments.size();) {
    const SpecialTokens special_tokens = segments[i].special_tokens;
    size_t end = begin;
    for (; i < segments.size() && segments[i].special_tokens == special_tokens; ++i)
      end += segments[i].text.size();
    const TokenNames& names =
        special_tokens == SpecialTokens::kParse ? impl_->parse_names : impl_->plain_names;
    for (size_t position = begin; position < end;) {
      const auto match =
          names.LongestAtFrontOf(std::string_view(text).substr(position, end - position));
      if (match.id < 0) {
        ++position;
        continue;
      }
      impl_->EncodeWords(std::string_view(text).substr(words_begin, position - words_begin),
                         scratch, ids);
      ids.push_back(match.id);
      position += match.num_bytes;
      words_begin = position;
    }
    begin = end;
  }
  impl_->EncodeWords(std::string_view(text).substr(words_begin), scratch, ids);
  return ids;
}

std::string_view BpeTokenizer::Decode(int32_t id) const { return impl_->BytesOf(id); }

int32_t BpeTokenizer::vocab_size() const { return static_cast<int32_t>(impl_->token_bytes.size()); }

const SpecialIds& BpeTokenizer::special_ids() const { return impl_->special_ids; }

bool BpeTokenizer::IsSpecial(int32_t id) const {
  impl_->BytesOf(id);
  return IsControl(impl_->types[id]);
}

int32_t BpeTokenizer::FindToken(std::string_view text) const {
  const auto match = impl_->parse_names.LongestAtFrontOf(text);
  if (match.id >= 0 && match.num_bytes == text.size()) return match.id;
  return impl_->merges->Find(text);
}

}  // namespace flashinfer::engine
