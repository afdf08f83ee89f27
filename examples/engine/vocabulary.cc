// SPDX-License-Identifier: Apache-2.0
// Reads vocabularies out of model files.
#include "engine/vocabulary.h"

#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/bpe_tokenizer.h"
#include "engine/mapped_file.h"
#include "engine/spm_tokenizer.h"
#include "flashinfer/error.h"

namespace flashinfer::engine {
namespace {

constexpr std::string_view kTemplateKey = "tokenizer.chat_template";

std::vector<std::string> Strings(const GgufFile& file, std::string_view key) {
  const std::vector<std::string_view> views = file.GetStrings(key);
  return {views.begin(), views.end()};
}

std::unique_ptr<Tokenizer> LoadBpe(const GgufFile& file) {
  const std::string_view kind = file.GetString("tokenizer.ggml.model");
  if (kind != "gpt2") {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("{}: tokenizer.ggml.model is '{}', only 'gpt2' (byte-level BPE) is "
                            "supported",
                            file.name(), kind));
  }
  BpeVocabulary vocabulary;
  vocabulary.pre_tokenizer = file.GetString("tokenizer.ggml.pre", "default");
  vocabulary.tokens = Strings(file, "tokenizer.ggml.tokens");
  vocabulary.merges = Strings(file, "tokenizer.ggml.merges");
  if (file.Has("tokenizer.ggml.token_type")) {
    for (int64_t type : file.GetInts("tokenizer.ggml.token_type")) {
      vocabulary.types.push_back(static_cast<TokenType>(type));
    }
  }
  const auto id = [&](std::string_view key) {
    return static_cast<int32_t>(file.GetInt(fmt::format("tokenizer.ggml.{}_token_id", key), -1));
  };
  SpecialIds& special = vocabulary.special_ids;
  special.bos = id("bos");
  special.eos = id("eos");
  special.eot = id("eot");
  // Files of Llama 3 models may leave it out; their texts begin with it.
  special.add_bos = file.GetBool("tokenizer.ggml.add_bos_token",
                                 vocabulary.pre_tokenizer == "llama-bpe" && special.bos >= 0);
  return std::make_unique<BpeTokenizer>(std::move(vocabulary));
}

}  // namespace

std::unique_ptr<Tokenizer> LoadTokenizer(const Checkpoint& checkpoint) {
  if (checkpoint.gguf() != nullptr) return LoadBpe(*checkpoint.gguf());
  const MappedFile file = MappedFile::Open(checkpoint.FindTokenizerFile());
  const std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()),
                               file.bytes().size());
  return std::make_unique<SpmTokenizer>(
      ParseSpmVocabulary(bytes, static_cast<int32_t>(checkpoint.config().vocab_size)));
}

std::string ChatTemplateSource(const Checkpoint& checkpoint) {
  const GgufFile* file = checkpoint.gguf();
  return file == nullptr ? "" : std::string(file->GetString(kTemplateKey, ""));
}

}  // namespace flashinfer::engine
