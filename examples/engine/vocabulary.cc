// SPDX-License-Identifier: Apache-2.0
// Finds the vocabulary that belongs to a model file.
#include "engine/vocabulary.h"

#include <string_view>

#include "engine/gguf_tokenizer.h"
#include "engine/mapped_file.h"
#include "engine/spm_tokenizer.h"

namespace flashinfer::engine {

std::unique_ptr<Tokenizer> LoadTokenizer(const Checkpoint& checkpoint) {
  if (checkpoint.gguf() != nullptr) return ReadTokenizer(*checkpoint.gguf());
  const MappedFile file = MappedFile::Open(checkpoint.FindTokenizerFile());
  const std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()),
                               file.bytes().size());
  return std::make_unique<SpmTokenizer>(
      ParseSpmVocabulary(bytes, static_cast<int32_t>(checkpoint.config().vocab_size)));
}

}  // namespace flashinfer::engine
