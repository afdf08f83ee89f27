// SPDX-License-Identifier: Apache-2.0
// Plans of decode that one thread makes, in memory that grows.
#include "plan/decode_plan.h"

#include "kernels/attention/decode_plan_walk.h"

namespace flashinfer {
namespace {

/// The threads of a planner: this one.
struct OneThread {
  template <class F>
  void ForEach(int32_t n, F f) const {
    for (int32_t i = 0; i < n; ++i) f(i);
  }
  void Sync() const {}
  int64_t Scan(int64_t* x, int32_t n) const {
    int64_t sum = 0;
    for (int32_t i = 0; i < n; ++i) x[i] = sum += x[i];
    return sum;
  }
  template <class F>
  auto Once(F f) const {
    return f();
  }
  int32_t NumThatFit(const int64_t* x, int32_t n, int64_t base, int64_t room) const {
    int32_t i = 0;
    while (i < n && x[i] - base <= room) ++i;
    return i;
  }
  bool IsFirst() const { return true; }
};

struct BatchOnHost {
  int32_t num_requests;
  int32_t window_left;
  const DecodeBatch& batch;
  int64_t KvLen(int32_t b) const { return batch.kv_len[static_cast<size_t>(b)]; }
  int64_t PageBegin(int32_t b) const { return batch.page_begin[static_cast<size_t>(b)]; }
};

int64_t MaxPieces(const DecodeBatch& batch, const DecodePlanLimits& limits) {
  int64_t num_keys = 0;
  if (limits.fixed_kv_chunk > 0) {
    for (const int64_t n : batch.kv_len) num_keys += n;
  }
  return kernels::MaxDecodePieces(limits, static_cast<int64_t>(batch.kv_len.size()), num_keys);
}

}  // namespace

void PlanDecode(const DecodeBatch& batch, const DecodePlanLimits& limits, DecodePlan& plan) {
  const size_t num_requests = batch.kv_len.size();
  const auto num_slots = static_cast<size_t>(limits.num_slots);
  DecodePlan::Scratch& scratch = plan.scratch;
  plan.pieces.resize(static_cast<size_t>(MaxPieces(batch, limits)));
  plan.slot_begin.resize(num_slots + 1);
  scratch.slot_starts.resize(num_slots);
  scratch.cuts.resize(num_slots);
  scratch.sums.resize(num_requests);
  scratch.num_pieces.resize(num_requests);
  const kernels::DecodePlanMemory memory{.pieces = plan.pieces.data(),
                                         .slot_begin = plan.slot_begin.data(),
                                         .slot_starts = scratch.slot_starts.data(),
                                         .cuts = scratch.cuts.data(),
                                         .sums = scratch.sums.data(),
                                         .num_pieces = scratch.num_pieces.data()};
  const BatchOnHost on_host{static_cast<int32_t>(num_requests), batch.window_left, batch};
  OneThread thread;
  const kernels::DecodePlanSizes sizes =
      kernels::DecodePlanner(thread, on_host, limits, memory).Run();
  plan.pieces.resize(static_cast<size_t>(sizes.num_pieces));
  plan.num_partials = sizes.num_partials;
  plan.num_merges = sizes.num_merges;
}

}  // namespace flashinfer
