// SPDX-License-Identifier: Apache-2.0
// `flashinfer generate`: answers prompts, or chats on a terminal.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/engine.h"
#include "flashinfer/cpu.h"
#include "flashinfer/error.h"
#include "generation.h"
#include "session.h"
#include "terminal.h"

namespace flashinfer::cli {
namespace {

void Print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// Shows texts in the order of the prompts, each as a line or more: the first unfinished one as it
/// grows, the others when their turn comes.
class OrderedOutput {
 public:
  explicit OrderedOutput(size_t num_prompts) : texts_(num_prompts) {}

  void Show(const ShownText& shown) {
    Text& text = texts_[shown.index];
    text.all += shown.text;
    text.is_complete = shown.is_last;
    if (shown.index == next_) Print(shown.text);
    while (next_ < texts_.size() && texts_[next_].is_complete) {
      EndLine();
      if (++next_ < texts_.size()) Print(texts_[next_].all);
    }
  }
  /// Nothing more comes.
  void Finish() const {
    if (next_ < texts_.size()) EndLine();
  }

 private:
  struct Text {
    std::string all;
    bool is_complete = false;
  };

  void EndLine() const {
    if (!texts_[next_].all.ends_with('\n')) Print("\n");
  }

  std::vector<Text> texts_;
  size_t next_ = 0;
};

/// Numbers of one run, for people or as JSON.
struct Summary {
  int64_t prompt_tokens = 0;
  int64_t generated_tokens = 0;
  double first_token_ms = 0;  ///< mean over the requests that came to one

  explicit Summary(const std::vector<Answer>& answers) {
    int64_t num_begun = 0;
    for (const Answer& answer : answers) {
      prompt_tokens += answer.num_prompt_tokens();
      generated_tokens += answer.num_tokens();
      if (answer.num_tokens() == 0) continue;
      first_token_ms += answer.first_token_s() * 1e3;
      ++num_begun;
    }
    if (num_begun > 0) first_token_ms /= static_cast<double>(num_begun);
  }
};

double PrefillRate(const engine::EngineStats& stats) {
  return Rate(stats.prefill_tokens, stats.prefill_time.count());
}

double DecodeRate(const engine::EngineStats& stats) {
  return Rate(stats.decode_tokens, stats.decode_time.count());
}

void PrintTable(const std::vector<Answer>& answers, const Session& session,
                const engine::Engine& engine) {
  const engine::EngineStats stats = engine.stats();
  const Summary summary(answers);
  Table table;
  table.Add("model", fmt::format("{}, {} threads", session.model_name(), NumThreads()));
  table.Add("prompt",
            fmt::format("{} tokens, {:.1f} tokens/s", summary.prompt_tokens, PrefillRate(stats)));
  table.Add("answer",
            fmt::format("{} tokens, {:.1f} tokens/s", summary.generated_tokens, DecodeRate(stats)));
  table.Add("first token", fmt::format("after {:.1f} ms", summary.first_token_ms));
  AddEngineRows(table, engine);
  table.Print();
}

void PrintJson(const std::vector<Answer>& answers, const Session& session,
               const engine::Engine& engine) {
  const engine::EngineStats stats = engine.stats();
  const Summary summary(answers);
  nlohmann::ordered_json out;
  if (answers.size() == 1) {
    out["text"] = answers[0].text();
    out["finish_reason"] = answers[0].finish_reason();
  } else {
    for (const Answer& answer : answers) {
      out["text"].push_back(answer.text());
      out["finish_reason"].push_back(answer.finish_reason());
    }
  }
  out["prompt_tokens"] = summary.prompt_tokens;
  out["generated_tokens"] = summary.generated_tokens;
  out["prefill_tokens_per_s"] = PrefillRate(stats);
  out["decode_tokens_per_s"] = DecodeRate(stats);
  out["time_to_first_token_ms"] = summary.first_token_ms;
  out["kv_pages"] = engine.num_pages();
  out["kv_page_size"] = engine.page_size();
  out["kv_pages_used"] = stats.scheduler.peak_used_pages;
  out["kv_pages_shared"] = stats.scheduler.num_shared_pages;
  out["peak_memory_mib"] = PeakMemoryMib();
  out["model"] = session.model_name();
  out["threads"] = NumThreads();
  out["device"] = Name(engine.device());
  for (const auto& [backend, ops] : OperatorsByBackend()) out["operators"][backend] = ops;
  Print(out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

std::vector<engine::ChatMessage> FirstMessages(const GenerateOptions& options) {
  std::vector<engine::ChatMessage> messages;
  if (!options.system.empty()) messages.push_back({"system", options.system});
  return messages;
}

std::vector<int32_t> Encode(const GenerateOptions& options, Session& session,
                            const std::string& prompt) {
  if (options.is_raw) return session.EncodeRaw(prompt);
  if (session.has_chat_template()) {
    std::vector<engine::ChatMessage> messages = FirstMessages(options);
    messages.push_back({"user", prompt});
    return session.EncodeChat(messages);
  }
  if (!options.system.empty()) {
    throw Error(ErrorKind::kUnsupported, "system: the model has no chat template to put it into");
  }
  // A model that only continues texts.
  if (prompt.empty()) {
    throw Error(ErrorKind::kInvalidArgument, "prompt: is empty, expected some text");
  }
  return session.EncodeRaw(prompt);
}

int GenerateBatch(const GenerateOptions& options, Session& session) {
  std::vector<std::vector<int32_t>> prompts;
  prompts.reserve(options.prompts.size());
  for (const std::string& prompt : options.prompts) {
    prompts.push_back(Encode(options, session, prompt));
  }
  engine::Engine& engine = session.StartEngine();
  OrderedOutput output(prompts.size());
  const std::vector<Answer> answers =
      RunPrompts(prompts, options, session, engine, [&](const ShownText& shown) {
        if (options.json) return;
        output.Show(shown);
      });
  if (options.json) {
    PrintJson(answers, session, engine);
  } else {
    output.Finish();
    PrintTable(answers, session, engine);
  }
  return Interrupted() ? kExitInterrupted : 0;
}

/// Reads a line; false at the end of input or Ctrl-C.
bool ReadLine(std::string* line) {
  fmt::print(stderr, "> ");
  return !Interrupted() && std::getline(std::cin, *line) && !Interrupted();
}

int Chat(const GenerateOptions& options, Session& session) {
  if (!options.is_raw && !session.has_chat_template()) {
    throw Error(ErrorKind::kUnsupported,
                "the model has no chat template: give it a --prompt to continue");
  }
  engine::Engine& engine = session.StartEngine();
  fmt::print(stderr, "{}; an empty line or Ctrl-D ends the chat\n", session.model_name());
  std::vector<engine::ChatMessage> messages = FirstMessages(options);
  std::vector<Answer> answers;
  for (std::string line; ReadLine(&line) && !line.empty();) {
    const size_t num_before = messages.size();
    messages.push_back({"user", line});
    try {
      const std::vector<int32_t> prompt =
          options.is_raw ? session.EncodeRaw(line) : session.EncodeChat(messages);
      answers.push_back(RunPrompts({prompt}, options, session, engine,
                                   [](const ShownText& shown) { Print(shown.text); })[0]);
      Print("\n");
      messages.push_back({"assistant", answers.back().text()});
    } catch (const Error& error) {
      // The chat goes on as if the line had not been said.
      fmt::print(stderr, "flashinfer: {}\n", error.what());
      messages.resize(num_before);
    }
  }
  fmt::print(stderr, "\n");
  PrintTable(answers, session, engine);
  return Interrupted() ? kExitInterrupted : 0;
}

}  // namespace

int Generate(const GenerateOptions& options) {
  const bool is_chat = options.prompts.empty();
  if (is_chat && (isatty(STDIN_FILENO) != 1 || options.json)) {
    throw Error(ErrorKind::kInvalidArgument,
                "prompt: is missing; only a terminal, without --json, can chat");
  }
  options.sampling.Check();
  CatchInterrupt();
  Session session(options.model);
  return is_chat ? Chat(options, session) : GenerateBatch(options, session);
}

}  // namespace flashinfer::cli
