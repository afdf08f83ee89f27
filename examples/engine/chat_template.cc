// SPDX-License-Identifier: Apache-2.0
// A chat template from its source to the segments of a prompt.
#include "engine/chat_template.h"

#include <algorithm>

#include "engine/read_error.h"
#include "engine/template_interpreter.h"
#include "engine/template_parser.h"

namespace flashinfer::engine {
namespace {

constexpr int64_t kMaxSteps = 1'000'000;
constexpr int64_t kMaxBytes = int64_t{64} << 20;
constexpr int64_t kMaxBytesPerInputByte = 64;
constexpr size_t kMaxSourceBytes = size_t{1} << 20;

/// As Jinja reads a file: newlines are `\n`, and one at the very end is dropped.
std::string NormalizeNewlines(std::string_view source) {
  std::string text;
  for (size_t i = 0; i < source.size(); ++i) {
    const bool is_cr = source[i] == '\r';
    if (is_cr && i + 1 < source.size() && source[i + 1] == '\n') continue;
    text.push_back(is_cr ? '\n' : source[i]);
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

/// One line, whatever the template quotes in it.
Error MakeError(std::string_view source, const TemplateFailure& failure) {
  const std::string_view before = source.substr(0, failure.offset);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t column = before.size() - (before.rfind('\n') + 1) + 1;
  std::string message = failure.message;
  std::replace_if(
      message.begin(), message.end(), [](char c) { return c >= 0 && c < ' '; }, ' ');
  if (failure.kind == ErrorKind::kUnsupported)
    message += " is not supported; --raw does without the template";
  return Error(failure.kind,
               fmt::format("chat template, line {}, column {}: {}", line, column, message));
}

TemplateVariables MakeVariables(const ChatInput& input) {
  ValueList messages;
  for (const ChatMessage& message : input.messages)
    messages.push_back(
        TemplateValue::MakeDict({{"role", TemplateValue(MarkedText::FromUser(message.role))},
                                 {"content", TemplateValue(MarkedText::FromUser(message.content))}},
                                0));
  return {{"messages", TemplateValue::MakeList(std::move(messages), 0)},
          {"add_generation_prompt", TemplateValue(input.add_generation_prompt)},
          {"bos_token", TemplateValue(MarkedText::FromTemplate(input.bos_token))},
          {"eos_token", TemplateValue(MarkedText::FromTemplate(input.eos_token))},
          {"tools", TemplateValue::MakeNone()},
          {"documents", TemplateValue::MakeNone()}};
}

std::vector<Segment> SegmentsOf(const MarkedText& text) {
  std::vector<Segment> segments;
  for (size_t begin = 0; begin < text.size();) {
    const char mark = text.marks[begin];
    const size_t end = std::min(text.marks.find_first_not_of(mark, begin), text.size());
    segments.push_back({text.bytes.substr(begin, end - begin), mark == MarkedText::kUserMark
                                                                   ? SpecialTokens::kPlain
                                                                   : SpecialTokens::kParse});
    begin = end;
  }
  return segments;
}

}  // namespace

struct ChatTemplate::Impl {
  std::string source;
  Block block;
};

ChatTemplate::ChatTemplate(std::string source) : impl_(std::make_unique<Impl>()) {
  if (source.size() > kMaxSourceBytes)
    Fail(ErrorKind::kUnsupported,
         "chat template: has {} bytes, at most {} are supported; --raw does without the template",
         source.size(), kMaxSourceBytes);
  impl_->source = NormalizeNewlines(source);
  try {
    impl_->block = ParseTemplate(impl_->source);
  } catch (const TemplateFailure& failure) {
    throw MakeError(impl_->source, failure);
  }
}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

std::vector<Segment> ChatTemplate::Render(const ChatInput& input) const {
  int64_t input_bytes = 0;
  for (const ChatMessage& message : input.messages)
    input_bytes += std::ssize(message.role) + std::ssize(message.content);
  const TemplateBudget budget(kMaxSteps, kMaxBytes + kMaxBytesPerInputByte * input_bytes);
  try {
    return SegmentsOf(RunTemplate(impl_->block, MakeVariables(input), budget));
  } catch (const TemplateFailure& failure) {
    throw MakeError(impl_->source, failure);
  }
}

}  // namespace flashinfer::engine
