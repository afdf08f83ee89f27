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

/// Calls `body(begin, end)` over 0..count in pieces of `grain`, handed out as threads become free.
/// A count within one grain runs on the caller.
template <class Body>
void ParallelFor(int64_t count, int64_t grain, Body&& body) {
  if (count <= grain) {
    if (count > 0) body(int64_t{0}, count);
    return;
  }
  std::atomic<int64_t> next{0};
  ForEachLane([&](Lane) {
    for (int64_t begin = next.fetch_add(grain, std::memory_order_relaxed); begin < count;
         begin = next.fetch_add(grain, std::memory_order_relaxed)) {
      body(begin, std::min(begin + grain, count));
    }
  });
}

}  // namespace flashinfer::cpu
