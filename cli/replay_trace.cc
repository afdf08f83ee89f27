// SPDX-License-Identifier: Apache-2.0
// `flashinfer replay-trace`: serves a recorded or made-up trace and measures what its users saw.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "engine/engine.h"
#include "engine/trace.h"
#include "engine/trace_prompt.h"
#include "flashinfer/cpu.h"
#include "flashinfer/error.h"
#include "generation.h"
#include "session.h"
#include "terminal.h"

namespace flashinfer::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// What happened to one request; times in seconds since the replay began.
struct Served {
  double arrival_s;
  double last_token_s = 0;
  int64_t num_tokens = 0;
};

struct Percentiles {
  double p50 = 0, p90 = 0, p99 = 0;

  /// By the nearest rank.
  explicit Percentiles(std::vector<double> values) {
    if (values.empty()) return;
    std::ranges::sort(values);
    const auto at = [&](double share) {
      const double rank = std::ceil(share * static_cast<double>(values.size()));
      return values[static_cast<size_t>(std::max(rank, 1.0)) - 1];
    };
    p50 = at(0.5), p90 = at(0.9), p99 = at(0.99);
  }
};

std::vector<engine::TraceRequest> LoadTrace(const ReplayOptions& options) {
  if (options.trace.empty()) {
    engine::SyntheticTraceOptions synthetic;
    if (options.num_requests > 0) synthetic.num_requests = options.num_requests;
    synthetic.seed = options.seed;
    return engine::MakeSyntheticTrace(synthetic);
  }
  std::vector<engine::TraceRequest> trace;
  engine::TraceReader reader = engine::TraceReader::Open(options.trace);
  while (options.num_requests == 0 || static_cast<int64_t>(trace.size()) < options.num_requests) {
    std::optional<engine::TraceRequest> request = reader.Next();
    if (!request) break;
    trace.push_back(std::move(*request));
  }
  if (trace.empty()) {
    throw Error(ErrorKind::kInvalidArgument, fmt::format("{}: has no request", options.trace));
  }
  return trace;
}

/// Submits requests when they are due and collects their tokens' times.
class Replay {
 public:
  Replay(const ReplayOptions& options, engine::Engine& engine)
      : options_(options), engine_(engine), trace_(LoadTrace(options)) {}

  void Run() {
    ProgressBar progress(static_cast<int64_t>(trace_.size()));
    begin_ = Clock::now();
    while (!Interrupted() && (next_ < trace_.size() || !engine_.idle())) {
      SubmitDue();
      if (engine_.idle()) {
        WaitForNext();
        continue;
      }
      for (const engine::TokenEvent& event : engine_.Step()) Record(event);
      progress.Show(num_finished_, fmt::format("{:.1f} tokens/s", Rate(num_generated_, Seconds())));
    }
    elapsed_s_ = Seconds();
  }
  void PrintTable(const Session& session) const;
  void PrintJson(const Session& session) const;

 private:
  double Seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  double Due(const engine::TraceRequest& request) const {
    return request.arrival_s * options_.time_scale;
  }

  void SubmitDue() {
    for (; next_ < trace_.size() && Due(trace_[next_]) <= Seconds(); ++next_) {
      const engine::TracePrompt prompt =
          engine::MakeTracePrompt(trace_[next_], next_, options_.length_scale,
                                  engine_.context_length(), engine_.config().vocab_size);
      if (prompt.is_cut) ++num_cut_;
      num_prompt_tokens_ += static_cast<int64_t>(prompt.tokens.size());
      const int64_t id = engine_.Submit({.prompt = prompt.tokens, .max_tokens = prompt.max_tokens});
      served_.emplace(id, Served{Due(trace_[next_])});
    }
  }
  /// Briefly, so that Ctrl-C is noticed.
  void WaitForNext() const {
    if (next_ == trace_.size()) return;
    const double wait_s = std::clamp(Due(trace_[next_]) - Seconds(), 0.0, 0.05);
    std::this_thread::sleep_for(std::chrono::duration<double>(wait_s));
  }
  void Record(const engine::TokenEvent& event) {
    Served& served = served_.at(event.request);
    const double now_s = Seconds();
    if (served.num_tokens++ == 0) {
      first_token_ms_.push_back((now_s - served.arrival_s) * 1e3);
    } else {
      between_tokens_ms_.push_back((now_s - served.last_token_s) * 1e3);
    }
    served.last_token_s = now_s;
    ++num_generated_;
    if (event.finish != engine::FinishReason::kNone) ++num_finished_;
  }

  const ReplayOptions& options_;
  engine::Engine& engine_;
  std::vector<engine::TraceRequest> trace_;
  size_t next_ = 0;
  Clock::time_point begin_;
  double elapsed_s_ = 0;
  std::map<int64_t, Served> served_;
  std::vector<double> first_token_ms_, between_tokens_ms_;
  int64_t num_cut_ = 0, num_finished_ = 0, num_prompt_tokens_ = 0, num_generated_ = 0;
};

void Replay::PrintTable(const Session& session) const {
  const engine::SchedulerStats stats = engine_.stats().scheduler;
  const auto latencies = [](const Percentiles& p) {
    return fmt::format("p50 {:.1f} ms, p90 {:.1f} ms, p99 {:.1f} ms", p.p50, p.p90, p.p99);
  };
  Table table;
  table.Add("model", fmt::format("{}, {} threads", session.model_name(), NumThreads()));
  table.Add("requests", fmt::format("{} of {} served in {:.1f} s, {} cut to the context",
                                    num_finished_, trace_.size(), elapsed_s_, num_cut_));
  table.Add("prefix hits",
            fmt::format("{} requests, {} of {} prompt tokens", stats.num_prefix_hits,
                        stats.num_shared_pages * engine_.page_size(), num_prompt_tokens_));
  table.Add("first token", latencies(Percentiles(first_token_ms_)));
  table.Add("between tokens", latencies(Percentiles(between_tokens_ms_)));
  table.Add("throughput",
            fmt::format("{:.1f} tokens/s of prompts, {:.1f} tokens/s of answers",
                        Rate(num_prompt_tokens_, elapsed_s_), Rate(num_generated_, elapsed_s_)));
  AddEngineRows(table, engine_);
  table.Print();
}

void Replay::PrintJson(const Session& session) const {
  const engine::SchedulerStats stats = engine_.stats().scheduler;
  const auto latencies = [](const Percentiles& p) {
    return nlohmann::ordered_json{{"p50", p.p50}, {"p90", p.p90}, {"p99", p.p99}};
  };
  const nlohmann::ordered_json out{
      {"requests", num_finished_},
      {"requests_in_trace", trace_.size()},
      {"requests_cut", num_cut_},
      {"prefix_hits", stats.num_prefix_hits},
      {"prefix_hit_tokens", stats.num_shared_pages * engine_.page_size()},
      {"prompt_tokens", num_prompt_tokens_},
      {"generated_tokens", num_generated_},
      {"time_to_first_token_ms", latencies(Percentiles(first_token_ms_))},
      {"inter_token_ms", latencies(Percentiles(between_tokens_ms_))},
      {"tokens_per_s", Rate(num_generated_, elapsed_s_)},
      {"prompt_tokens_per_s", Rate(num_prompt_tokens_, elapsed_s_)},
      {"elapsed_s", elapsed_s_},
      {"kv_pages", engine_.num_pages()},
      {"kv_page_size", engine_.page_size()},
      {"kv_pages_used", stats.peak_used_pages},
      {"kv_pages_shared", stats.num_shared_pages},
      {"preemptions", stats.num_preemptions},
      {"peak_memory_mib", PeakMemoryMib()},
      {"model", session.model_name()},
      {"threads", NumThreads()}};
  fmt::print("{}\n", out.dump(2));
}

}  // namespace

int ReplayTrace(const ReplayOptions& options) {
  CatchInterrupt();
  Session session(options.model);
  engine::Engine& engine = session.StartEngine();
  Replay replay(options, engine);
  replay.Run();
  options.json ? replay.PrintJson(session) : replay.PrintTable(session);
  return Interrupted() ? kExitInterrupted : 0;
}

}  // namespace flashinfer::cli
