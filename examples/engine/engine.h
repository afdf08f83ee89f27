// SPDX-License-Identifier: Apache-2.0
// The serving engine: takes requests of token ids, runs them together, hands out tokens.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/model.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"

namespace flashinfer::engine {

struct EngineOptions {
  int64_t context_length = 0;  ///< longest request, prompt and answer; 0: the model's
  int64_t kv_bytes = 0;  ///< of the KV cache; 0: eight requests as long as the context, but at
                         ///< least 64 MiB and at most 1 GiB (or one such request)
  int32_t page_size = 16;
  Device device = {};  ///< that the model runs on
  SchedulerOptions scheduler = {};
};

struct Request {
  std::vector<int32_t> prompt;
  int64_t max_tokens = 256;
  SamplingParams sampling = {};
  std::vector<int32_t> end_ids = {};  ///< tokens that end it; they count as generated
};

enum class FinishReason : uint8_t { kNone, kEnd, kMaxTokens, kContext };

/// A token that a request has generated.
struct TokenEvent {
  int64_t request;
  int32_t token;
  FinishReason finish;  ///< kNone while more follow
};

/// Where the time went. Steps that compute any prompt are prefill steps, the others decode steps;
/// a prompt's first answer token comes out of a prefill step.
struct EngineStats {
  std::chrono::duration<double> prefill_time{}, decode_time{};
  int64_t prefill_tokens = 0;  ///< computed; those found in the cache are not among them
  int64_t decode_tokens = 0;   ///< generated in decode steps
  int64_t generated_tokens = 0;
  int64_t num_steps = 0;
  SchedulerStats scheduler;
};

class Engine {
 public:
  /// Loads the model; the checkpoint may go afterwards. Throws kInvalidArgument for options out of
  /// range.
  Engine(const Checkpoint& checkpoint, const EngineOptions& options);
  ~Engine();

  /// Queues a request and returns its number. Throws kInvalidArgument for an empty prompt, a token
  /// outside the vocabulary, a prompt that leaves no room in the context, or a request that the
  /// KV cache cannot hold even alone.
  int64_t Submit(const Request& request);
  /// Ends a request early; nothing happens when it has ended.
  void Cancel(int64_t request);

  /// Runs one step of whatever is due; the events are valid until the next call.
  std::span<const TokenEvent> Step();
  bool idle() const;

  /// Mean negative log-likelihood, in nats, of tokens 2 to n given those before them. Throws as
  /// Submit(), and when there are fewer than two. Not while requests run.
  double MeanNll(std::span<const int32_t> tokens);

  Device device() const { return options_.device; }
  const ModelConfig& config() const { return model_->config(); }
  int64_t weight_bytes() const { return model_->weight_bytes(); }
  int64_t context_length() const { return context_length_; }
  int64_t num_pages() const { return pool_->num_pages(); }
  int32_t page_size() const { return pool_->page_size(); }
  EngineStats stats() const;

 private:
  struct Active {
    Sequence sequence;
    Request request;
    int64_t max_length;  ///< of prompt and answer
  };

  void CheckRequest(const Request& request) const;
  void FillBatch(std::span<const ScheduledRow> rows);
  void AppendRow(const ScheduledRow& row);
  FinishReason Finish(const Active& active, int32_t token) const;
  Active& Find(int64_t request);

  EngineOptions options_;
  int64_t context_length_ = 0;
  std::optional<KvPool> pool_;
  std::optional<Scheduler> scheduler_;
  std::optional<Model> model_;
  std::optional<Sampler> sampler_;
  std::vector<std::unique_ptr<Active>> active_;
  int64_t next_id_ = 0;
  StepBatch batch_;
  std::vector<Draw> draws_;
  std::vector<Active*> drawing_;
  std::vector<TokenEvent> events_;
  EngineStats stats_;
};

}  // namespace flashinfer::engine
