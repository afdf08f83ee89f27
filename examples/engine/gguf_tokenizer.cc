// SPDX-License-Identifier: Apache-2.0
// GGUF metadata to a vocabulary.
#include "engine/gguf_tokenizer.h"

#include <limits>

#include "engine/bpe_tokenizer.h"
#include "engine/pre_tokenizer.h"
#include "engine/read_error.h"

namespace flashinfer::engine {
namespace {

int32_t ToInt32(const GgufFile& file, std::string_view key, int64_t value, int64_t low,
                int64_t high) {
  if (value < low || value > high)
    Fail(ErrorKind::kInvalidArgument, "{}: {} has {}; {} to {} are accepted", file.name(), key,
         value, low, high);
  return static_cast<int32_t>(value);
}

int32_t ReadTokenId(const GgufFile& file, std::string_view key) {
  return ToInt32(file, key, file.GetInt(key, -1), -1, std::numeric_limits<int32_t>::max());
}

std::vector<std::string> ReadStrings(const GgufFile& file, std::string_view key) {
  const std::vector<std::string_view> strings = file.GetStrings(key);
  return {strings.begin(), strings.end()};
}

std::vector<TokenType> ReadTokenTypes(const GgufFile& file) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  std::vector<TokenType> types;
  if (!file.Has(kKey)) return types;
  for (const int64_t value : file.GetInts(kKey))
    types.push_back(static_cast<TokenType>(
        ToInt32(file, kKey, value, 0, static_cast<int64_t>(TokenType::kByte))));
  return types;
}

}  // namespace

std::unique_ptr<Tokenizer> ReadTokenizer(const GgufFile& file) {
  const std::string_view model = file.GetString("tokenizer.ggml.model");
  if (model != "gpt2")
    Fail(ErrorKind::kUnsupported,
         "{}: tokenizer.ggml.model is {}; supported is 'gpt2', which is "
         "byte-level BPE",
         file.name(), Quoted(model));
  BpeVocabulary vocabulary;
  vocabulary.pre_tokenizer = file.GetString("tokenizer.ggml.pre", "default");
  vocabulary.tokens = ReadStrings(file, "tokenizer.ggml.tokens");
  vocabulary.types = ReadTokenTypes(file);
  vocabulary.merges = ReadStrings(file, "tokenizer.ggml.merges");
  SpecialIds& special = vocabulary.special_ids;
  special.bos = ReadTokenId(file, "tokenizer.ggml.bos_token_id");
  special.eos = ReadTokenId(file, "tokenizer.ggml.eos_token_id");
  special.eot = ReadTokenId(file, "tokenizer.ggml.eot_token_id");
  special.add_bos = file.GetBool("tokenizer.ggml.add_bos_token",
                                 FindPreTokenizer(vocabulary.pre_tokenizer).add_bos);
  return std::make_unique<BpeTokenizer>(std::move(vocabulary));
}

std::optional<ChatTemplate> ReadChatTemplate(const GgufFile& file) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  if (!file.Has(kKey)) return std::nullopt;
  return ChatTemplate(std::string(file.GetString(kKey)));
}

}  // namespace flashinfer::engine
