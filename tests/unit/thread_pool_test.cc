// SPDX-License-Identifier: Apache-2.0
// Parallel regions: every piece once, nested and concurrent calls, forks, changes of the size.
#include "backends/cpu/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "flashinfer/cpu.h"
#include "flashinfer/error.h"

namespace flashinfer::cpu {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kHasThreadSanitizer = true;
#elif defined(__has_feature)
constexpr bool kHasThreadSanitizer = __has_feature(thread_sanitizer);
#else
constexpr bool kHasThreadSanitizer = false;
#endif

class ThreadPoolTest : public ::testing::Test {
 protected:
  ThreadPoolTest() { SetNumThreads(4); }
};

int64_t SumOfIndices(int64_t count, int64_t grain) {
  std::atomic<int64_t> sum{0};
  ParallelFor(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) sum += i;
  });
  return sum;
}

TEST_F(ThreadPoolTest, EveryIndexOnce) {
  for (int64_t count : {0, 1, 2, 3, 7, 64, 1000}) {
    for (int64_t grain : {1, 3, 1000}) {
      std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
      ParallelFor(count, grain, [&](int64_t begin, int64_t end) {
        EXPECT_EQ(begin % grain, 0);
        EXPECT_LE(end - begin, std::max(grain, count / (NumThreads() * kPiecesPerLane)));
        for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
      });
      for (const auto& visit : visits) EXPECT_EQ(visit, 1);
    }
  }
}

/// Keeps lane 0 in the region until `num_lanes` lanes have come, or for ten seconds.
void AwaitLanes(Lane lane, int num_lanes, std::atomic<int>& num_come) {
  ++num_come;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (lane.index == 0 && num_come < num_lanes && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
}

TEST_F(ThreadPoolTest, EveryLaneComesWhereThereIsTime) {
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::vector<int> seen(4, 0);
    std::atomic<int> num_come{0};
    ForEachLane([&](Lane lane) {
      EXPECT_EQ(lane.count, 4);
      seen[static_cast<size_t>(lane.index)] = lane.index + 1;
      AwaitLanes(lane, 4, num_come);
    });
    EXPECT_EQ(seen, (std::vector<int>{1, 2, 3, 4}));
  }
}

TEST_F(ThreadPoolTest, WritesOfLanesThatCameAreSeenAfterwards) {
  for (int repeat = 0; repeat < 2000; ++repeat) {
    std::vector<int> writes(4, 0);
    std::atomic<int> num_writes{0};
    ForEachLane([&](Lane lane) {
      ++writes[static_cast<size_t>(lane.index)];
      ++num_writes;
    });
    EXPECT_GE(writes[0], 1);
    EXPECT_EQ(writes[0] + writes[1] + writes[2] + writes[3], num_writes);
  }
}

TEST_F(ThreadPoolTest, NestedRegionsRunOnTheirCaller) {
  std::atomic<int> num_come{0};
  ForEachLane([&](Lane lane) {
    ForEachLane([](Lane inner) { EXPECT_EQ(inner.count, 1); });
    EXPECT_EQ(SumOfIndices(100, 7), 4950);
    EXPECT_EQ(NumThreads(), 4);
    AwaitLanes(lane, 4, num_come);
  });
  EXPECT_GE(num_come, 4);
}

TEST_F(ThreadPoolTest, ConcurrentCallersAllFinish) {
  std::vector<std::thread> callers;
  callers.reserve(6);
  std::atomic<int> num_right{0};
  for (int i = 0; i < 6; ++i) {
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 200; ++repeat) {
        num_right += static_cast<int>(SumOfIndices(1000, 10) == 499500);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(num_right, 6 * 200);
}

TEST_F(ThreadPoolTest, SizeChangesBetweenCalls) {
  for (int num_threads : {1, 3, 2, 8, 4}) {
    SetNumThreads(num_threads);
    EXPECT_EQ(NumThreads(), num_threads);
    std::atomic<int> num_come{0};
    ForEachLane([&](Lane lane) {
      EXPECT_EQ(lane.count, num_threads);
      AwaitLanes(lane, num_threads, num_come);
    });
    EXPECT_GE(num_come, num_threads);
  }
  EXPECT_THROW(SetNumThreads(0), Error);
  EXPECT_THROW(SetNumThreads(257), Error);
  EXPECT_EQ(NumThreads(), 4);
}

TEST_F(ThreadPoolTest, AChildProcessMakesItsOwnThreads) {
  if (kHasThreadSanitizer) GTEST_SKIP() << "the thread sanitizer ends a child that makes threads";
  EXPECT_EQ(SumOfIndices(1000, 10), 499500);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);  // a child that waits for lost threads ends by a signal
    _exit(SumOfIndices(1000, 10) == 499500 && NumThreads() == 4 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(SumOfIndices(1000, 10), 499500);
}

}  // namespace
}  // namespace flashinfer::cpu
