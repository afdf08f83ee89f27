// SPDX-License-Identifier: Apache-2.0
// Pre-tokenizers of byte-level BPE: the rules that cut text into words before merging.
#pragma once

#include <string_view>
#include <vector>

namespace flashinfer::engine {

/// Each is the meaning of one regular expression (or a sequence of them, each applied within the
/// pieces that the one before left), written at its splitter in the .cc.
enum class SplitRule { kGpt2, kDigitsThenGpt2, kLlama3, kQwen2, kDefault };

/// What the name in `tokenizer.ggml.pre` stands for.
struct PreTokenizer {
  std::string_view name;
  SplitRule rule;
  bool whole_words_first;  ///< a word that is a token is not built by merges
  bool add_bos;            ///< where the file does not say
};

/// Throws kUnsupported with the names that are known.
const PreTokenizer& FindPreTokenizer(std::string_view name);

/// The words of `text`, in order; joined they are `text`. A byte that is not UTF-8 counts as a
/// symbol, like a punctuation mark.
std::vector<std::string_view> SplitIntoWords(SplitRule rule, std::string_view text);

}  // namespace flashinfer::engine
