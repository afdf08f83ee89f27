// SPDX-License-Identifier: Apache-2.0
// Chat templates: the subset of Jinja that models' templates are written in.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/tokenizer.h"

namespace flashinfer::engine {

struct ChatMessage {
  std::string role;  ///< `system`, `user` or `assistant`
  std::string content;
};

/// What a template can read besides literals; other names are undefined.
struct ChatInput {
  std::vector<ChatMessage> messages;
  std::string bos_token;  ///< text of the vocabulary's BOS, may be empty
  std::string eos_token;
  bool add_generation_prompt = true;
};

/// A parsed template. Supported: text, `{{ }}`, `{# #}`, `{% for if set break continue %}` with
/// whitespace control, expressions over strings, integers, lists, dicts and `namespace`, the
/// usual tests, filters and string methods, `raise_exception`. trim_blocks and lstrip_blocks are
/// on, as where such templates are made.
///
/// Work is bounded: nesting, steps and bytes produced.
class ChatTemplate {
 public:
  /// Throws kUnsupported for a construct beyond the subset and kInvalidArgument for a syntax
  /// error; both name it and its line and column.
  explicit ChatTemplate(std::string source);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  /// The prompt. What came from `messages` is kPlain, also after filters, slices and joins; what
  /// the template and the vocabulary wrote is kParse. No two neighbours are of the same kind.
  ///
  /// Throws as the constructor, for what only shows when it is reached; kInvalidArgument with
  /// the template's words where it calls raise_exception, or where it exceeds its bounds.
  std::vector<Segment> Render(const ChatInput& input) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flashinfer::engine
