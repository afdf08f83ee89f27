// SPDX-License-Identifier: Apache-2.0
// Decides which tokens of which requests each step computes.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "engine/kv_pool.h"

namespace flashinfer::engine {

/// A request's tokens and how far they are computed. Keys and values of the first `num_computed`
/// tokens are in `pages`.
struct Sequence {
  int64_t id = 0;
  std::vector<int32_t> tokens;  ///< prompt, then what was generated
  int64_t num_computed = 0;
  std::vector<int32_t> pages;
  PageKey key;              ///< of the last full page
  bool has_shared = false;  ///< whether a page was ever found by content

  int64_t num_pending() const { return static_cast<int64_t>(tokens.size()) - num_computed; }
};

struct SchedulerOptions {
  int64_t max_step_tokens = 512;
  int64_t max_requests = 64;  ///< that run at the same time
  bool share_prefixes = true;
};

struct SchedulerStats {
  int64_t num_shared_pages = 0;     ///< found by content instead of computed, each time counted
  int64_t num_prefix_hits = 0;      ///< requests that found any
  int64_t num_computed_tokens = 0;  ///< including those computed again
  int64_t num_preemptions = 0;
  int64_t peak_used_pages = 0;
};

/// One request's part of a step: its next `num_tokens` tokens.
struct ScheduledRow {
  Sequence* sequence;
  int64_t begin;  ///< position of the first
  int64_t num_tokens;
  bool is_last;  ///< nothing is pending afterwards: the next token is to be sampled
};

/// Continuous batching: every step first takes one token of each request that generates, then fills
/// up with pieces of prompts, in the order of arrival. When pages run out, the youngest request
/// gives its pages back and starts over later.
class Scheduler {
 public:
  Scheduler(KvPool& pool, const SchedulerOptions& options);

  /// `sequence` must outlive its stay here; its tokens, all of them that it may come to have, must
  /// fit into the pool.
  void Submit(Sequence& sequence);
  /// Takes the sequence out and gives its pages back.
  void Remove(Sequence& sequence);

  /// The next step; rows with a single token come first. Pages are reserved and the tokens count as
  /// computed from here on, so the step must be run. Empty when there is nothing to do.
  const std::vector<ScheduledRow>& Schedule();

  bool idle() const { return running_.empty() && waiting_.empty(); }
  int64_t num_running() const { return static_cast<int64_t>(running_.size()); }
  const SchedulerStats& stats() const { return stats_; }

 private:
  void ScheduleDecodes();
  void SchedulePrompts();
  void Admit();
  bool Reserve(Sequence& sequence, int64_t num_tokens);
  void MatchPages(Sequence& sequence);
  void Take(Sequence& sequence, int64_t num_tokens);
  void ReleasePages(Sequence& sequence);
  void PreemptYoungest();

  KvPool& pool_;
  SchedulerOptions options_;
  std::vector<Sequence*> running_;  ///< by age
  std::deque<Sequence*> waiting_;   ///< by age; all younger than those that run
  std::vector<ScheduledRow> rows_;
  int64_t budget_ = 0;
  SchedulerStats stats_;
};

}  // namespace flashinfer::engine
