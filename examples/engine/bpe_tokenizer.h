// SPDX-License-Identifier: Apache-2.0
// Byte-level BPE, as in GPT-2, Llama 3, Qwen and SmolLM vocabularies.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/tokenizer.h"

namespace flashinfer::engine {

/// As GGUF's `tokenizer.ggml.token_type` numbers them.
enum class TokenType : int32_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      ///< special
  kUserDefined = 4,  ///< found in any text before it is cut into words, but not special
  kUnused = 5,
  kByte = 6,
};

/// A vocabulary as its file has it.
struct BpeVocabulary {
  std::string pre_tokenizer;        ///< a name that FindPreTokenizer knows
  std::vector<std::string> tokens;  ///< normal ones in the byte alphabet, the others literally
  std::vector<TokenType> types;     ///< [tokens], or empty: all normal
  std::vector<std::string> merges;  ///< `left right` in the byte alphabet, first is done first
  /// end_ids are completed with eos, eot and the names that models end turns with.
  SpecialIds special_ids;
};

class BpeTokenizer final : public Tokenizer {
 public:
  /// Throws kInvalidArgument when the vocabulary contradicts itself, and as FindPreTokenizer.
  explicit BpeTokenizer(BpeVocabulary vocabulary);
  ~BpeTokenizer() override;

  using Tokenizer::Decode;
  using Tokenizer::Encode;
  /// O(n log n) in the length of the text.
  std::vector<int32_t> Encode(std::span<const Segment> segments) const override;
  std::string_view Decode(int32_t id) const override;
  int32_t vocab_size() const override;
  const SpecialIds& special_ids() const override;
  bool IsSpecial(int32_t id) const override;
  int32_t FindToken(std::string_view text) const override;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace flashinfer::engine
