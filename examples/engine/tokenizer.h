// SPDX-License-Identifier: Apache-2.0
// Tokenizers: text to token ids and back, and the streaming of generated text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flashinfer::engine {

/// Whether the text form of a special token (`<|im_end|>`) yields that token.
enum class SpecialTokens {
  kPlain,  ///< it is text like any other: what a user types
  kParse,  ///< it yields the token: what a chat template writes
};

/// A stretch of a prompt. Neighbours are tokenized as one text, so that where the cuts are does
/// not change the ids; only a special token must lie within kParse text wholly.
struct Segment {
  std::string text;
  SpecialTokens special_tokens;
  friend bool operator==(const Segment&, const Segment&) = default;
};

/// What a vocabulary says about itself; -1 where it has no such token.
struct SpecialIds {
  int32_t bos = -1;              ///< begins a text
  int32_t eos = -1;              ///< ends a text
  int32_t eot = -1;              ///< ends a turn of a chat
  bool add_bos = false;          ///< a text (not a templated chat) is to begin with `bos`
  std::vector<int32_t> end_ids;  ///< each of them ends generation; sorted
};

/// One vocabulary. Immutable: may be used by many threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Ids of `segments` joined; never adds BOS or EOS. Bytes that are not UTF-8 are kept where the
  /// vocabulary has tokens for them; a byte that it has no token for yields nothing.
  virtual std::vector<int32_t> Encode(std::span<const Segment> segments) const = 0;
  std::vector<int32_t> Encode(std::string_view text, SpecialTokens special_tokens) const;

  /// The bytes of one token, which need not be whole characters; of a special token its name.
  /// Throws kInvalidArgument when `id` is outside the vocabulary.
  virtual std::string_view Decode(int32_t id) const = 0;
  std::string Decode(std::span<const int32_t> ids) const;

  /// The space that Encode puts before the text belongs to it only; true where it does that.
  virtual bool DropsSpaceAfterBos() const { return false; }

  virtual int32_t vocab_size() const = 0;
  virtual const SpecialIds& special_ids() const = 0;
  /// A control token, which stands for no text. Throws as Decode.
  virtual bool IsSpecial(int32_t id) const = 0;
  /// The id of the token with this text or name, or -1.
  virtual int32_t FindToken(std::string_view text) const = 0;

  bool EndsGeneration(int32_t id) const;
};

/// Turns generated ids into text as they come, in whole characters.
class StreamDecoder {
 public:
  /// `previous_id` is the last token of the prompt, or -1. Borrows `tokenizer`.
  explicit StreamDecoder(const Tokenizer& tokenizer, int32_t previous_id = -1)
      : tokenizer_(tokenizer), previous_id_(previous_id) {}

  /// The text that `id` completes: valid UTF-8, maybe empty. An incomplete character is held back;
  /// bytes that can never become one are replaced with U+FFFD. Special tokens yield no text.
  std::string Push(int32_t id);
  /// The held back bytes, as U+FFFD, at the end of generation.
  std::string Finish();

 private:
  const Tokenizer& tokenizer_;
  int32_t previous_id_;
  std::string held_;
};

/// Throws kInvalidArgument, naming `argument` and the first bad byte, unless `text` is UTF-8.
void CheckUtf8(std::string_view argument, std::string_view text);

}  // namespace flashinfer::engine
