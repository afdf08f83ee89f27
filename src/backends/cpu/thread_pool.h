// SPDX-License-Identifier: Apache-2.0
// The persistent threads that CPU kernels run on.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <type_traits>

namespace flashinfer::cpu {

/// Where a thread stands in a parallel region.
struct Lane {
  int index;  ///< 0 is the calling thread
  int count;
};

using LaneFunction = void (*)(void* context, Lane lane);

/// Runs `function` on the caller and, at the same time, on the other threads; returns when all that
/// began are done. Threads which get no core before the caller is done are left out, so lanes take
/// work as they come (a lane may come twice, one time after the other) and lane 0 must find all
/// that nobody else took. A call from inside a region, or while another thread's region runs, runs
/// on the caller alone (lane {0, 1}). `function` must not throw.
void RunLanes(LaneFunction function, void* context);

/// Calls `body(lane)` on every thread that comes in time.
template <class Body>
void ForEachLane(Body&& body) {
  RunLanes([](void* context,
              Lane lane) { (*static_cast<std::remove_reference_t<Body>*>(context))(lane); },
           const_cast<void*>(static_cast<const void*>(&body)));
}

/// Of what is left, a thread takes one part in so many times the number of threads. Zen 4, 2
/// threads, 2026-11: RoPE of 512 tokens of 10 KiB in place takes half the time of a token at a
/// time, where one core's prefetcher takes lines that the other is writing.
inline constexpr int64_t kPiecesPerLane = 4;

/// Calls `body(begin, end)` over 0..count in pieces handed out as threads become free: large ones
/// first, that each thread reads and writes a stretch of memory of its own, and towards the end
/// ones of `grain`. A count within one grain runs on the caller.
template <class Body>
void ParallelFor(int64_t count, int64_t grain, Body&& body) {
  if (count <= grain) {
    if (count > 0) body(int64_t{0}, count);
    return;
  }
  std::atomic<int64_t> next{0};
  ForEachLane([&](Lane lane) {
    int64_t begin = next.load(std::memory_order_relaxed);
    while (begin < count) {
      const int64_t share = (count - begin) / (kPiecesPerLane * lane.count);
      const int64_t size = std::max(grain, share / grain * grain);
      if (!next.compare_exchange_weak(begin, begin + size, std::memory_order_relaxed)) continue;
      body(begin, std::min(begin + size, count));
      begin = next.load(std::memory_order_relaxed);
    }
  });
}

}  // namespace flashinfer::cpu
