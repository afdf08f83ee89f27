// SPDX-License-Identifier: Apache-2.0
// Feeds tokenizers any text, any llama2.c vocabulary and any BPE vocabulary.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "engine/bpe_tokenizer.h"
#include "engine/byte_alphabet.h"
#include "engine/spm_tokenizer.h"
#include "flashinfer/error.h"

namespace flashinfer::engine {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

/// Ids within the vocabulary; streaming yields UTF-8.
void CheckIds(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  StreamDecoder decoder(tokenizer);
  std::string text;
  for (const int32_t id : ids) text += decoder.Push(id);
  CheckUtf8("streamed", text + decoder.Finish());
}

BpeVocabulary ByteVocabulary(std::string pre_tokenizer) {
  BpeVocabulary vocabulary;
  vocabulary.pre_tokenizer = std::move(pre_tokenizer);
  for (int byte = 0; byte < 256; ++byte)
    vocabulary.tokens.push_back(EncodeByteAlphabet(std::string(1, static_cast<char>(byte))));
  for (const std::string pair : {"aa", "ab", " a", "\n\n", "12", "\xC3\xA9"}) {
    vocabulary.tokens.push_back(EncodeByteAlphabet(pair));
    vocabulary.merges.push_back(EncodeByteAlphabet(pair.substr(0, 1)) + " " +
                                EncodeByteAlphabet(pair.substr(1)));
  }
  vocabulary.types.assign(vocabulary.tokens.size(), TokenType::kNormal);
  vocabulary.tokens.emplace_back("<|end|>");
  vocabulary.types.push_back(TokenType::kControl);
  return vocabulary;
}

/// Any text comes back, however it is cut.
void FuzzText(std::string_view data) {
  static const BpeTokenizer tokenizers[] = {
      BpeTokenizer(ByteVocabulary("gpt-2")), BpeTokenizer(ByteVocabulary("smollm")),
      BpeTokenizer(ByteVocabulary("llama-bpe")), BpeTokenizer(ByteVocabulary("qwen2")),
      BpeTokenizer(ByteVocabulary("default"))};
  for (const BpeTokenizer& tokenizer : tokenizers) {
    const auto plain = tokenizer.Encode(data, SpecialTokens::kPlain);
    Require(tokenizer.Decode(plain) == data);
    for (const int32_t id : plain) Require(!tokenizer.IsSpecial(id));
    const auto parsed = tokenizer.Encode(data, SpecialTokens::kParse);
    Require(tokenizer.Decode(parsed) == data);
    CheckIds(tokenizer, parsed);
  }
}

void FuzzSpmFile(std::string_view data) {
  const SpmTokenizer tokenizer(ParseSpmVocabulary(data));
  CheckIds(tokenizer, tokenizer.Encode(data, SpecialTokens::kParse));
}

/// Lines: `m` begins a merge, a digit a token of that type.
void FuzzBpeVocabulary(std::string_view data) {
  BpeVocabulary vocabulary = ByteVocabulary("llama-bpe");
  for (size_t begin = 0; begin < data.size();) {
    const size_t end = std::min(data.find('\n', begin), data.size());
    const std::string_view line = data.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with('m')) {
      vocabulary.merges.emplace_back(line.substr(1));
    } else if (!line.empty() && line[0] >= '0' && line[0] <= '6') {
      vocabulary.tokens.emplace_back(line.substr(1));
      vocabulary.types.push_back(static_cast<TokenType>(line[0] - '0'));
    }
  }
  const BpeTokenizer tokenizer(std::move(vocabulary));
  for (const int32_t id : tokenizer.Encode(data, SpecialTokens::kPlain))
    Require(!tokenizer.IsSpecial(id));
  CheckIds(tokenizer, tokenizer.Encode(data, SpecialTokens::kParse));
}

}  // namespace
}  // namespace flashinfer::engine

/// The first byte chooses what the others are.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace flashinfer::engine;
  if (size == 0) return 0;
  const std::string_view data(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  try {
    if (bytes[0] == 's') FuzzSpmFile(data);
    if (bytes[0] == 'b') FuzzBpeVocabulary(data);
    if (bytes[0] == 't') FuzzText(data);
  } catch (const flashinfer::Error&) {
    // Refused in words, as it should be.
  }
  return 0;
}
