// SPDX-License-Identifier: Apache-2.0
// Runs requests to their end and keeps what they said and how long it took.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands.h"
#include "engine/engine.h"
#include "engine/stop_strings.h"
#include "engine/tokenizer.h"
#include "session.h"
#include "terminal.h"

namespace flashinfer::cli {

/// One request's text as it grows.
class Answer {
 public:
  Answer(const engine::Tokenizer& tokenizer, std::span<const int32_t> prompt,
         const std::vector<std::string>& stops);

  /// Takes a token; returns the text that may be shown.
  std::string Push(const engine::TokenEvent& event);

  bool finished() const { return !finish_reason_.empty(); }
  /// `end`, `stop`, `max_tokens`, `context`, or `interrupted`, the value to begin with.
  std::string_view finish_reason() const {
    return finished() ? std::string_view(finish_reason_) : "interrupted";
  }
  bool stopped() const { return stops_.stopped(); }
  const std::string& text() const { return text_; }
  int64_t num_prompt_tokens() const { return num_prompt_tokens_; }
  int64_t num_tokens() const { return num_tokens_; }
  double first_token_s() const { return first_token_s_; }

 private:
  using Clock = std::chrono::steady_clock;

  engine::StreamDecoder decoder_;
  engine::StopStrings stops_;
  std::string text_, finish_reason_;
  int64_t num_prompt_tokens_;
  int64_t num_tokens_ = 0;
  double first_token_s_ = 0;
  Clock::time_point begin_ = Clock::now();
};

/// More of the text of prompt `index`.
struct ShownText {
  size_t index;
  std::string_view text;
  bool is_last;
};

/// Runs `prompts` together until all have ended or Ctrl-C.
std::vector<Answer> RunPrompts(const std::vector<std::vector<int32_t>>& prompts,
                               const GenerateOptions& options, const Session& session,
                               engine::Engine& engine,
                               const std::function<void(const ShownText&)>& show);

/// Operators that have run, by the candidate that ran them: `cuda.simt` and its operators. One
/// that several have run stands with each.
std::vector<std::pair<std::string, std::vector<std::string>>> OperatorsByBackend();

/// The lines of the closing table that every command with an engine has.
void AddEngineRows(Table& table, const engine::Engine& engine);

}  // namespace flashinfer::cli
