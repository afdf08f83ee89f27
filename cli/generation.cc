// SPDX-License-Identifier: Apache-2.0
// The loop around Engine::Step() that turns tokens into text.
#include "generation.h"

#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "flashinfer/backend.h"

namespace flashinfer::cli {
namespace {

using engine::FinishReason;

std::string_view Name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "";
    case FinishReason::kEnd:
      return "end";
    case FinishReason::kMaxTokens:
      return "max_tokens";
    case FinishReason::kContext:
      return "context";
  }
  return "";
}

}  // namespace

Answer::Answer(const engine::Tokenizer& tokenizer, std::span<const int32_t> prompt,
               const std::vector<std::string>& stops)
    : decoder_(tokenizer, prompt.back()),
      stops_(stops),
      num_prompt_tokens_(static_cast<int64_t>(prompt.size())) {}

std::string Answer::Push(const engine::TokenEvent& event) {
  if (num_tokens_++ == 0) {
    first_token_s_ = std::chrono::duration<double>(Clock::now() - begin_).count();
  }
  std::string shown;
  if (event.finish != FinishReason::kEnd) shown = stops_.Push(decoder_.Push(event.token));
  finish_reason_ = Name(event.finish);
  if (finished()) {
    shown += stops_.Push(decoder_.Finish());
    shown += stops_.Finish();
  }
  if (stops_.stopped()) finish_reason_ = "stop";
  text_ += shown;
  return shown;
}

std::vector<Answer> RunPrompts(const std::vector<std::vector<int32_t>>& prompts,
                               const GenerateOptions& options, const Session& session,
                               engine::Engine& engine,
                               const std::function<void(const ShownText&)>& show) {
  engine::Request request{.prompt = {},
                          .max_tokens = options.max_tokens,
                          .sampling = options.sampling,
                          .end_ids = session.tokenizer().special_ids().end_ids};
  if (options.ignore_eos) request.end_ids.clear();
  std::vector<Answer> answers;
  std::vector<int64_t> ids;
  for (const std::vector<int32_t>& prompt : prompts) {
    request.prompt = prompt;
    ids.push_back(engine.Submit(request));
    answers.emplace_back(session.tokenizer(), prompt, options.stops);
  }
  while (!engine.idle() && !Interrupted()) {
    for (const engine::TokenEvent& event : engine.Step()) {
      const auto i = static_cast<size_t>(event.request - ids.front());
      const std::string text = answers[i].Push(event);
      show({i, text, answers[i].finished()});
      if (answers[i].stopped()) engine.Cancel(event.request);
    }
  }
  for (int64_t id : ids) engine.Cancel(id);
  return answers;
}

std::vector<std::pair<std::string, std::vector<std::string>>> OperatorsByBackend() {
  std::map<std::string, std::vector<std::string>> by_backend;
  for (const OpBackends& used : ChosenBackends()) {
    for (const std::string& candidate : used.candidates) by_backend[candidate].push_back(used.op);
  }
  return {by_backend.begin(), by_backend.end()};
}

void AddEngineRows(Table& table, const engine::Engine& engine) {
  const engine::EngineStats stats = engine.stats();
  table.Add("KV cache", fmt::format("{} of {} pages of {} tokens used, {} shared",
                                    stats.scheduler.peak_used_pages, engine.num_pages(),
                                    engine.page_size(), stats.scheduler.num_shared_pages));
  if (stats.scheduler.num_preemptions > 0) {
    table.Add("preempted",
              fmt::format("{} times for lack of pages", stats.scheduler.num_preemptions));
  }
  table.Add("memory", fmt::format("{:.1f} MiB at the peak", PeakMemoryMib()));
  table.Add("device", Name(engine.device()));
  for (const auto& [backend, ops] : OperatorsByBackend()) {
    table.Add(backend, fmt::format("{}", fmt::join(ops, ", ")));
  }
}

}  // namespace flashinfer::cli
