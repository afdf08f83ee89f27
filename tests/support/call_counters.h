// SPDX-License-Identifier: Apache-2.0
// Counts what Run() of an operator must not do. Only for tests that have call_counters.cc among
// their sources: it replaces operator new, getenv and the lock of mutexes.
#pragma once

#include <cstdint>

namespace flashinfer::test {

/// How often each was called so far, by any thread.
struct CallCounts {
  int64_t allocations = 0;
  int64_t environment_reads = 0;
  int64_t library_locks = 0;   ///< of mutexes, by the library itself; drivers lock their own
  int64_t kernel_fetches = 0;  ///< kernels looked for beyond those that are loaded

  friend bool operator==(const CallCounts&, const CallCounts&) = default;
};

CallCounts CountedCalls();

}  // namespace flashinfer::test
