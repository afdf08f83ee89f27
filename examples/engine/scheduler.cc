// SPDX-License-Identifier: Apache-2.0
// Continuous batching with chunked prefill, prefix sharing and preemption.
#include "engine/scheduler.h"

#include <algorithm>
#include <utility>

namespace flashinfer::engine {

Scheduler::Scheduler(KvPool& pool, const SchedulerOptions& options)
    : pool_(pool), options_(options) {}

void Scheduler::Submit(Sequence& sequence) { waiting_.push_back(&sequence); }

void Scheduler::Remove(Sequence& sequence) {
  std::erase(running_, &sequence);
  std::erase(waiting_, &sequence);
  ReleasePages(sequence);
}

const std::vector<ScheduledRow>& Scheduler::Schedule() {
  do {
    rows_.clear();
    budget_ = options_.max_step_tokens;
    ScheduleDecodes();
    SchedulePrompts();
    Admit();
    // Only unfinished prompts are left and the pool is full: the oldest can go on without the rest.
    if (rows_.empty() && running_.size() > 1) PreemptYoungest();
  } while (rows_.empty() && !idle());
  stats_.peak_used_pages = std::max(stats_.peak_used_pages, pool_.num_used());
  return rows_;
}

void Scheduler::ScheduleDecodes() {
  for (size_t i = 0; i < running_.size() && budget_ > 0; ++i) {
    Sequence& sequence = *running_[i];
    if (sequence.num_pending() != 1) continue;
    // Preempting the youngest never takes a request that is scheduled already: those are older.
    while (running_.size() > i && !Reserve(sequence, 1)) PreemptYoungest();
    if (running_.size() <= i) return;
    Take(sequence, 1);
  }
}

void Scheduler::SchedulePrompts() {
  for (Sequence* sequence : running_) {
    if (budget_ == 0) return;
    if (sequence->num_pending() <= 1) continue;
    MatchPages(*sequence);
    const int64_t num_tokens = std::min(sequence->num_pending(), budget_);
    if (Reserve(*sequence, num_tokens)) Take(*sequence, num_tokens);
  }
}

void Scheduler::Admit() {
  while (!waiting_.empty() && budget_ > 0 && num_running() < options_.max_requests) {
    Sequence& sequence = *waiting_.front();
    MatchPages(sequence);
    const int64_t num_missing = pool_.PagesFor(static_cast<int64_t>(sequence.tokens.size())) -
                                static_cast<int64_t>(sequence.pages.size());
    // One more page for each that runs: they would soon preempt the newcomer otherwise.
    if (!running_.empty() && num_missing + num_running() > pool_.num_free()) {
      ReleasePages(sequence);
      return;
    }
    const int64_t num_tokens = std::min(sequence.num_pending(), budget_);
    if (!Reserve(sequence, num_tokens)) return;
    waiting_.pop_front();
    running_.push_back(&sequence);
    Take(sequence, num_tokens);
  }
}

bool Scheduler::Reserve(Sequence& sequence, int64_t num_tokens) {
  const int64_t num_missing = pool_.PagesFor(sequence.num_computed + num_tokens) -
                              static_cast<int64_t>(sequence.pages.size());
  if (num_missing > pool_.num_free()) return false;
  for (int64_t i = 0; i < num_missing; ++i) sequence.pages.push_back(*pool_.Allocate());
  return true;
}

void Scheduler::MatchPages(Sequence& sequence) {
  const int64_t page_size = pool_.page_size();
  if (!options_.share_prefixes || sequence.num_computed % page_size != 0) return;
  // The last token is always computed: its logits are wanted.
  while (sequence.num_pending() > page_size) {
    const PageKey key = ChainKey(
        sequence.key,
        std::span(sequence.tokens)
            .subspan(static_cast<size_t>(sequence.num_computed), static_cast<size_t>(page_size)));
    const std::optional<int32_t> page = pool_.Match(key);
    if (!page) return;
    sequence.pages.push_back(*page);
    sequence.key = key;
    sequence.num_computed += page_size;
    ++stats_.num_shared_pages;
    if (!std::exchange(sequence.has_shared, true)) ++stats_.num_prefix_hits;
  }
}

void Scheduler::Take(Sequence& sequence, int64_t num_tokens) {
  const int64_t begin = sequence.num_computed;
  const int64_t page_size = pool_.page_size();
  sequence.num_computed += num_tokens;
  budget_ -= num_tokens;
  stats_.num_computed_tokens += num_tokens;
  // Full pages may be shared at once, even by a later row of the same step: each layer writes all
  // keys and values of a step before it reads any.
  for (int64_t i = begin / page_size; i < sequence.num_computed / page_size; ++i) {
    sequence.key = ChainKey(sequence.key, std::span(sequence.tokens)
                                              .subspan(static_cast<size_t>(i * page_size),
                                                       static_cast<size_t>(page_size)));
    if (options_.share_prefixes)
      pool_.Publish(sequence.pages[static_cast<size_t>(i)], sequence.key);
  }
  rows_.push_back({&sequence, begin, num_tokens, sequence.num_pending() == 0});
}

void Scheduler::ReleasePages(Sequence& sequence) {
  // Backwards, so that a prefix outlives what continues it.
  for (auto page = sequence.pages.rbegin(); page != sequence.pages.rend(); ++page) {
    pool_.Release(*page);
  }
  sequence.pages.clear();
  sequence.key = {};
  sequence.num_computed = 0;
}

void Scheduler::PreemptYoungest() {
  Sequence& youngest = *running_.back();
  running_.pop_back();
  ReleasePages(youngest);
  waiting_.push_front(&youngest);
  ++stats_.num_preemptions;
}

}  // namespace flashinfer::engine
