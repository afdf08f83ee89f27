// SPDX-License-Identifier: Apache-2.0
// A loaded model with its tokenizer, and how prompts become tokens.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commands.h"
#include "engine/chat_template.h"
#include "engine/checkpoint.h"
#include "engine/engine.h"
#include "engine/tokenizer.h"

namespace flashinfer::cli {

/// The whole file. Throws kIo naming it.
std::string ReadTextFile(const std::string& path);

class Session {
 public:
  /// Opens the model; the weights are loaded by StartEngine().
  explicit Session(const ModelOptions& options);

  const engine::Tokenizer& tokenizer() const { return *tokenizer_; }
  bool has_chat_template() const { return !template_source_.empty(); }
  /// The model's file name, without folders.
  const std::string& model_name() const { return model_name_; }

  /// Tokens of a raw prompt: special tokens count, and BOS begins it where the vocabulary says so.
  /// Throws kInvalidArgument where nothing is left.
  std::vector<int32_t> EncodeRaw(std::string_view text) const;
  /// Tokens of a chat, up to the beginning of the next answer. Throws kUnsupported, offering
  /// --raw, for a template beyond what the engine reads.
  std::vector<int32_t> EncodeChat(const std::vector<engine::ChatMessage>& messages);

  engine::Engine& StartEngine();

 private:
  ModelOptions options_;
  std::string model_name_;
  std::optional<engine::Checkpoint> checkpoint_;  ///< until the engine has its weights
  std::unique_ptr<engine::Tokenizer> tokenizer_;
  std::string template_source_;
  std::optional<engine::ChatTemplate> template_;
  std::optional<engine::Engine> engine_;
};

}  // namespace flashinfer::cli
