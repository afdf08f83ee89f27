// SPDX-License-Identifier: Apache-2.0
// The tokenizer and the chat template that a GGUF file carries.
#pragma once

#include <memory>
#include <optional>

#include "engine/chat_template.h"
#include "engine/gguf.h"
#include "engine/tokenizer.h"

namespace flashinfer::engine {

/// From the `tokenizer.ggml.*` keys; keeps nothing of the file. Throws kUnsupported naming the
/// kind of vocabulary or pre-tokenizer that is not read here, and kInvalidArgument where the keys
/// contradict each other.
std::unique_ptr<Tokenizer> ReadTokenizer(const GgufFile& file);

/// From `tokenizer.chat_template`; none where the file has none. Throws as ChatTemplate.
std::optional<ChatTemplate> ReadChatTemplate(const GgufFile& file);

}  // namespace flashinfer::engine
