// SPDX-License-Identifier: Apache-2.0
// The tokenizer that comes with a model file.
#pragma once

#include <memory>

#include "engine/checkpoint.h"
#include "engine/tokenizer.h"

namespace flashinfer::engine {

/// Reads the vocabulary in the GGUF file, or beside a llama2.c checkpoint. Throws kUnsupported for
/// a kind of vocabulary that is not byte-level BPE, kIo where the file is missing, and as the
/// tokenizers for a vocabulary that contradicts itself.
std::unique_ptr<Tokenizer> LoadTokenizer(const Checkpoint& checkpoint);

}  // namespace flashinfer::engine
