// SPDX-License-Identifier: Apache-2.0
// Random loads on the scheduler: what a step reads is what was computed for just those tokens.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>

namespace flashinfer::engine {
namespace {

/// Stands in for a model: a slot of the cache holds a hash of all tokens up to its own, and a step
/// may only read slots that hold what their sequence's tokens say.
class Simulation {
 public:
  Simulation(uint64_t seed, bool share_prefixes)
      : rng_(seed),
        pool_(Draw(8, 40), static_cast<int32_t>(Draw(1, 5))),
        scheduler_(pool_, {.max_step_tokens = Draw(4, 20),
                           .max_requests = Draw(1, 4),
                           .share_prefixes = share_prefixes}),
        slots_(static_cast<size_t>(pool_.num_pages() * pool_.page_size())) {}

  void Run(int num_requests) {
    int num_submitted = 0;
    for (int step = 0; step < 5000; ++step) {
      if (num_submitted < num_requests && (scheduler_.idle() || Draw(0, 2) == 0)) {
        Submit(num_submitted++);
      }
      if (scheduler_.idle()) {
        if (num_submitted == num_requests) break;
        continue;
      }
      Step();
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_TRUE(scheduler_.idle()) << "requests starve";
    EXPECT_EQ(num_finished_, num_requests);
    EXPECT_EQ(pool_.num_used(), 0);
  }

  const SchedulerStats& stats() const { return scheduler_.stats(); }

 private:
  int64_t Draw(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(rng_);
  }

  /// Two tokens only, so that prompts often begin alike.
  void Submit(int64_t id) {
    auto sequence = std::make_unique<Sequence>();
    sequence->id = id;
    const int64_t capacity = pool_.num_pages() * pool_.page_size();
    const int64_t length = Draw(1, std::max<int64_t>(capacity / 2, 1));
    for (int64_t i = 0; i < length; ++i) {
      sequence->tokens.push_back(static_cast<int32_t>(i < 6 ? 1 : Draw(0, 1)));
    }
    limits_[id] = Draw(length + 1, capacity + 1);
    scheduler_.Submit(*sequence);
    sequences_[id] = std::move(sequence);
  }

  uint64_t& Slot(const Sequence& sequence, int64_t position) {
    const int32_t page = sequence.pages.at(static_cast<size_t>(position / pool_.page_size()));
    return slots_.at(static_cast<size_t>(page * pool_.page_size() + position % pool_.page_size()));
  }

  static std::vector<uint64_t> PrefixHashes(const Sequence& sequence) {
    std::vector<uint64_t> hashes;
    uint64_t hash = 1;
    for (int32_t token : sequence.tokens) {
      hash = (hash ^ static_cast<uint64_t>(token + 1)) * 0x9e3779b97f4a7c15;
      hashes.push_back(hash);
    }
    return hashes;
  }

  void Step() {
    const std::vector<ScheduledRow> rows = scheduler_.Schedule();
    ASSERT_FALSE(rows.empty());
    std::set<int64_t> ids;
    for (const ScheduledRow& row : rows) {
      ASSERT_TRUE(ids.insert(row.sequence->id).second);
      ASSERT_GT(row.num_tokens, 0);
      ASSERT_EQ(row.sequence->num_computed, row.begin + row.num_tokens);
      ASSERT_EQ(row.is_last, row.sequence->num_pending() == 0);
      const std::vector<uint64_t> hashes = PrefixHashes(*row.sequence);
      for (int64_t i = row.begin; i < row.begin + row.num_tokens; ++i) {
        Slot(*row.sequence, i) = hashes[static_cast<size_t>(i)];
      }
    }
    for (const ScheduledRow& row : rows) {
      const std::vector<uint64_t> hashes = PrefixHashes(*row.sequence);
      for (int64_t i = 0; i < row.sequence->num_computed; ++i) {
        ASSERT_EQ(Slot(*row.sequence, i), hashes[static_cast<size_t>(i)])
            << "request " << row.sequence->id << ", token " << i;
      }
    }
    for (const ScheduledRow& row : rows) {
      if (row.is_last) Append(*row.sequence);
    }
  }

  void Append(Sequence& sequence) {
    sequence.tokens.push_back(static_cast<int32_t>(Draw(0, 1)));
    if (static_cast<int64_t>(sequence.tokens.size()) < limits_[sequence.id]) return;
    scheduler_.Remove(sequence);
    sequences_.erase(sequence.id);
    ++num_finished_;
  }

  std::mt19937_64 rng_;
  KvPool pool_;
  Scheduler scheduler_;
  std::vector<uint64_t> slots_;
  std::map<int64_t, std::unique_ptr<Sequence>> sequences_;
  std::map<int64_t, int64_t> limits_;
  int num_finished_ = 0;
};

TEST(SchedulerTest, StepsReadOnlyWhatWasComputed) {
  SchedulerStats total;
  const uint64_t first_seed = std::random_device()();
  for (uint64_t i = 0; i < 300; ++i) {
    SCOPED_TRACE(testing::Message() << "seed " << first_seed + i);
    Simulation simulation(first_seed + i, true);
    simulation.Run(12);
    if (HasFatalFailure()) return;
    total.num_shared_pages += simulation.stats().num_shared_pages;
    total.num_preemptions += simulation.stats().num_preemptions;
  }
  // The loads are such that both happen.
  EXPECT_GT(total.num_shared_pages, 0);
  EXPECT_GT(total.num_preemptions, 0);
}

TEST(SchedulerTest, SharesNothingWhenNotAskedTo) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Simulation simulation(seed, false);
    simulation.Run(12);
    EXPECT_EQ(simulation.stats().num_shared_pages, 0);
  }
}

TEST(SchedulerTest, RequestsOfOneStepShareTheirPrefix) {
  KvPool pool(16, 4);
  Scheduler scheduler(pool, {.max_step_tokens = 100});
  Sequence a, b;
  a.tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  b.tokens = {1, 2, 3, 4, 5, 6, 7, 8};
  scheduler.Submit(a);
  scheduler.Submit(b);
  const std::vector<ScheduledRow> rows = scheduler.Schedule();
  ASSERT_EQ(rows.size(), 2U);
  // The second page of `b` ends with its last token, which is computed all the same.
  EXPECT_EQ(rows[1].begin, 4);
  EXPECT_EQ(rows[1].num_tokens, 4);
  EXPECT_EQ(a.pages[0], b.pages[0]);
  EXPECT_NE(a.pages[1], b.pages[1]);
  scheduler.Remove(a);
  scheduler.Remove(b);
  EXPECT_EQ(pool.num_used(), 0);
}

TEST(KvPoolTest, EvictsTheLongestUnused) {
  KvPool pool(2, 4);
  const int32_t tokens[] = {1, 2, 3, 4};
  const PageKey first = ChainKey({}, tokens);
  const PageKey second = ChainKey(first, tokens);
  EXPECT_NE(first, second);
  const int32_t a = *pool.Allocate();
  const int32_t b = *pool.Allocate();
  EXPECT_EQ(pool.Allocate(), std::nullopt);
  pool.Publish(a, first);
  pool.Publish(b, second);
  pool.Release(b);
  pool.Release(a);
  EXPECT_EQ(pool.num_free(), 2);
  EXPECT_EQ(pool.Allocate(), b);
  EXPECT_EQ(pool.Match(second), std::nullopt);
  EXPECT_EQ(pool.Match(first), a);
  EXPECT_EQ(pool.num_free(), 0);
}

}  // namespace
}  // namespace flashinfer::engine
