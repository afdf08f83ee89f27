// SPDX-License-Identifier: Apache-2.0
// SentencePiece BPE as exported for llama2.c checkpoints (tokenizer.bin, tok512.bin).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer.h"

namespace flashinfer::engine {

/// Ids 0, 1 and 2 are unknown, BOS and EOS; 3 to 258 are the bytes, named `<0x00>` to `<0xFF>`.
struct SpmVocabulary {
  std::vector<std::string> tokens;
  std::vector<float> scores;  ///< [tokens]; of two merges the one of the higher score goes first
};

/// Reads int32 max_token_length, then of each token float32 score, int32 length and its bytes.
/// `vocab_size` is the checkpoint's; -1 takes all tokens of the file. Throws kInvalidArgument,
/// naming the byte, where the file is not that.
SpmVocabulary ParseSpmVocabulary(std::string_view file, int32_t vocab_size = -1);

class SpmTokenizer final : public Tokenizer {
 public:
  /// Throws kInvalidArgument unless the vocabulary has the special and byte tokens.
  explicit SpmTokenizer(SpmVocabulary vocabulary);
  ~SpmTokenizer() override;

  using Tokenizer::Decode;
  using Tokenizer::Encode;
  /// Puts a space before a text that is not empty; has no special tokens in text, whatever the
  /// segments ask for. O(n log n) in the length of the text.
  std::vector<int32_t> Encode(std::span<const Segment> segments) const override;
  std::string_view Decode(int32_t id) const override;
  bool DropsSpaceAfterBos() const override { return true; }
  int32_t vocab_size() const override;
  const SpecialIds& special_ids() const override;
  bool IsSpecial(int32_t id) const override;
  int32_t FindToken(std::string_view text) const override;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace flashinfer::engine
