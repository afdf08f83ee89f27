// SPDX-License-Identifier: Apache-2.0
// Steps of the serving engine: schedule, compute, sample, finish.
#include "engine/engine.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "flashinfer/error.h"

namespace flashinfer::engine {
namespace {

using Clock = std::chrono::steady_clock;

/// log(sum(exp(logits))) - logits[target].
double Nll(std::span<const float> logits, int32_t target) {
  const float max = *std::ranges::max_element(logits);
  double sum = 0;
  for (float logit : logits) sum += std::exp(static_cast<double>(logit - max));
  return std::log(sum) + max - logits[static_cast<size_t>(target)];
}

[[noreturn]] void ThrowInvalid(const std::string& message) {
  throw Error(ErrorKind::kInvalidArgument, message);
}

int64_t DefaultKvBytes(int64_t context_bytes) {
  constexpr int64_t kMiB = 1 << 20;
  return std::max(std::clamp(8 * context_bytes, 64 * kMiB, 1024 * kMiB), context_bytes);
}

}  // namespace

Engine::Engine(const Checkpoint& checkpoint, const EngineOptions& options) : options_(options) {
  const ModelConfig& config = checkpoint.config();
  context_length_ = options.context_length == 0 ? config.context_length : options.context_length;
  if (context_length_ < 1 || context_length_ > config.context_length) {
    ThrowInvalid(fmt::format("context: is {}, expected 1 to {}, the model's", context_length_,
                             config.context_length));
  }
  const int64_t page_bytes = Model::PageBytes(config, options.page_size);
  const int64_t context_pages = (context_length_ + options.page_size - 1) / options.page_size;
  const int64_t kv_bytes =
      options.kv_bytes == 0 ? DefaultKvBytes(context_pages * page_bytes) : options.kv_bytes;
  // Page numbers are 32 bits wide.
  const int64_t num_pages = std::min<int64_t>(kv_bytes / page_bytes, INT32_MAX);
  if (num_pages < 1) {
    ThrowInvalid(
        fmt::format("kv-mib: {} bytes do not hold one page, which takes {}", kv_bytes, page_bytes));
  }
  options_.scheduler.max_requests =
      std::min(options.scheduler.max_requests, options.scheduler.max_step_tokens);
  pool_.emplace(num_pages, options.page_size);
  scheduler_.emplace(*pool_, options_.scheduler);
  model_.emplace(checkpoint, ModelLimits{.max_step_tokens = options_.scheduler.max_step_tokens,
                                         .max_requests = options_.scheduler.max_requests,
                                         .num_pages = num_pages,
                                         .page_size = options.page_size,
                                         .device = options.device});
  sampler_.emplace(options.device, model_->stream());
}

Engine::~Engine() = default;

void Engine::CheckRequest(const Request& request) const {
  const auto num_tokens = static_cast<int64_t>(request.prompt.size());
  if (num_tokens == 0) ThrowInvalid("prompt: is empty, expected one token or more");
  if (num_tokens > context_length_) {
    ThrowInvalid(
        fmt::format("prompt: has {} tokens, the context holds {}", num_tokens, context_length_));
  }
  if (request.max_tokens < 1) {
    ThrowInvalid(fmt::format("max-tokens: is {}, expected 1 or more", request.max_tokens));
  }
  for (int32_t token : request.prompt) {
    if (token < 0 || token >= config().vocab_size) {
      ThrowInvalid(fmt::format("prompt: token {} is outside the vocabulary of {}", token,
                               config().vocab_size));
    }
  }
  request.sampling.Check();
  // The last token of an answer is never computed with.
  const int64_t max_computed =
      std::min(num_tokens + request.max_tokens - 1, std::max(context_length_ - 1, num_tokens));
  if (pool_->PagesFor(max_computed) > num_pages()) {
    ThrowInvalid(fmt::format(
        "kv-mib: the KV cache holds {} tokens, the request may need {} ({} of prompt, {} of "
        "answer)",
        num_pages() * page_size(), max_computed, num_tokens, max_computed - num_tokens + 1));
  }
}

int64_t Engine::Submit(const Request& request) {
  CheckRequest(request);
  auto active = std::make_unique<Active>();
  const auto num_tokens = static_cast<int64_t>(request.prompt.size());
  active->request = request;
  // A prompt that fills the context still gets the token that follows it.
  active->max_length =
      std::min(num_tokens + request.max_tokens, std::max(context_length_, num_tokens + 1));
  active->sequence.id = next_id_++;
  active->sequence.tokens = request.prompt;
  active->sequence.tokens.reserve(static_cast<size_t>(active->max_length));
  scheduler_->Submit(active->sequence);
  active_.push_back(std::move(active));
  return active_.back()->sequence.id;
}

void Engine::Cancel(int64_t request) {
  std::erase_if(active_, [&](const std::unique_ptr<Active>& active) {
    if (active->sequence.id != request) return false;
    scheduler_->Remove(active->sequence);
    return true;
  });
}

bool Engine::idle() const { return scheduler_->idle(); }

EngineStats Engine::stats() const {
  EngineStats stats = stats_;
  stats.scheduler = scheduler_->stats();
  return stats;
}

Engine::Active& Engine::Find(int64_t request) {
  // Ids rise along the list.
  return **std::ranges::lower_bound(
      active_, request, {}, [](const std::unique_ptr<Active>& a) { return a->sequence.id; });
}

void Engine::AppendRow(const ScheduledRow& row) {
  const Sequence& sequence = *row.sequence;
  const auto request = static_cast<int32_t>(batch_.num_requests());
  const int64_t end = row.begin + row.num_tokens;
  for (int64_t i = row.begin; i < end; ++i) {
    batch_.token_ids.push_back(sequence.tokens[static_cast<size_t>(i)]);
    batch_.positions.push_back(static_cast<int32_t>(i));
    batch_.requests.push_back(request);
  }
  batch_.qo_indptr.push_back(static_cast<int32_t>(batch_.num_tokens()));
  batch_.page_indices.insert(batch_.page_indices.end(), sequence.pages.begin(),
                             sequence.pages.end());
  batch_.page_indptr.push_back(static_cast<int32_t>(batch_.page_indices.size()));
  batch_.last_page_len.push_back(static_cast<int32_t>((end - 1) % page_size() + 1));
}

void Engine::FillBatch(std::span<const ScheduledRow> rows) {
  batch_.Clear();
  draws_.clear();
  drawing_.clear();
  for (const ScheduledRow& row : rows) {
    if (row.num_tokens == 1 && batch_.num_decodes == batch_.num_requests()) ++batch_.num_decodes;
    AppendRow(row);
    if (!row.is_last) continue;
    Active& active = Find(row.sequence->id);
    batch_.logit_rows.push_back(static_cast<int32_t>(batch_.num_tokens() - 1));
    drawing_.push_back(&active);
    draws_.push_back(
        {&active.request.sampling,
         static_cast<int64_t>(active.sequence.tokens.size() - active.request.prompt.size())});
  }
}

std::span<const TokenEvent> Engine::Step() {
  events_.clear();
  const Clock::time_point begin = Clock::now();
  const std::vector<ScheduledRow>& rows = scheduler_->Schedule();
  if (rows.empty()) return events_;
  FillBatch(rows);
  const TensorView logits = model_->Forward(batch_);
  const std::span<const int32_t> tokens = sampler_->Sample(logits, draws_);
  const bool is_decode = batch_.num_decodes == batch_.num_tokens();
  for (size_t i = 0; i < drawing_.size(); ++i) {
    Active& active = *drawing_[i];
    active.sequence.tokens.push_back(tokens[i]);
    events_.push_back({active.sequence.id, tokens[i], Finish(active, tokens[i])});
  }
  for (const TokenEvent& event : events_) {
    if (event.finish != FinishReason::kNone) Cancel(event.request);
  }
  const auto num_events = static_cast<int64_t>(events_.size());
  stats_.generated_tokens += num_events;
  ++stats_.num_steps;
  if (is_decode) {
    stats_.decode_tokens += num_events;
    stats_.decode_time += Clock::now() - begin;
  } else {
    stats_.prefill_tokens += batch_.num_tokens() - batch_.num_decodes;
    stats_.prefill_time += Clock::now() - begin;
  }
  return events_;
}

FinishReason Engine::Finish(const Active& active, int32_t token) const {
  const Request& request = active.request;
  if (std::ranges::find(request.end_ids, token) != request.end_ids.end()) return FinishReason::kEnd;
  const auto length = static_cast<int64_t>(active.sequence.tokens.size());
  if (length < active.max_length) return FinishReason::kNone;
  const bool is_max = length == static_cast<int64_t>(request.prompt.size()) + request.max_tokens;
  return is_max ? FinishReason::kMaxTokens : FinishReason::kContext;
}

double Engine::MeanNll(std::span<const int32_t> tokens) {
  const auto num_tokens = static_cast<int64_t>(tokens.size());
  if (num_tokens < 2) {
    ThrowInvalid(fmt::format("text: has {} tokens, expected 2 or more", num_tokens));
  }
  CheckRequest({.prompt = {tokens.begin(), tokens.end()}, .max_tokens = 1});
  Sequence sequence;
  sequence.tokens.assign(tokens.begin(), tokens.end() - 1);
  for (int64_t i = 0; i < pool_->PagesFor(num_tokens - 1); ++i) {
    sequence.pages.push_back(*pool_->Allocate());
  }
  const std::vector<int32_t> pages = sequence.pages;
  double sum = 0;
  // As many at a time as there is room for logits.
  const int64_t piece = options_.scheduler.max_requests;
  for (int64_t begin = 0; begin < num_tokens - 1; begin += piece) {
    const int64_t count = std::min(piece, num_tokens - 1 - begin);
    sequence.pages.assign(pages.begin(), pages.begin() + pool_->PagesFor(begin + count));
    batch_.Clear();
    AppendRow({&sequence, begin, count, true});
    for (int32_t row = 0; row < count; ++row) batch_.logit_rows.push_back(row);
    const TensorView logits = model_->ForwardToHost(batch_);
    for (int64_t row = 0; row < count; ++row) {
      sum += Nll({logits[row].data_as<float>(), static_cast<size_t>(logits.shape(1))},
                 tokens[static_cast<size_t>(begin + row + 1)]);
    }
  }
  for (int32_t page : pages) pool_->Release(page);
  return sum / static_cast<double>(num_tokens - 1);
}

}  // namespace flashinfer::engine
