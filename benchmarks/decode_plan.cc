// SPDX-License-Identifier: Apache-2.0
// Planning of decode for a GPU: integers alone, so it is measured without one. No floor is known.
#include "plan/decode_plan.h"

#include <random>

#include "core/fields.h"
#include "op_benchmarks.h"

namespace flashinfer::bench {
namespace {

struct DecodePlanCase {
  int64_t num_requests = 256;
  int64_t max_kv_len = 8192;  ///< lengths are anything up to it
  int32_t num_slots = 132;    ///< blocks of a head, here one a multiprocessor of an H200
};

template <FieldsOf<DecodePlanCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(num_requests)
  FLASHINFER_NAMED(max_kv_len)
  FLASHINFER_NAMED(num_slots)
}

const std::vector<std::string> kCases{
    "num_requests=1 max_kv_len=131072",
    "num_requests=64",
    "num_requests=256",
    "num_requests=256 num_slots=16",
    "num_requests=4096 max_kv_len=1024",
};

void Run(Harness& harness, const std::string& text) {
  if (harness.device().type != DeviceType::kCpu) {
    throw Error(ErrorKind::kUnsupported, "a plan of integers is made by the host");
  }
  const auto c = ParseFields<DecodePlanCase>(SplitWords(text));
  std::mt19937_64 rng(3);
  std::uniform_int_distribution<int64_t> length(1, c.max_kv_len);
  constexpr int64_t kBatches = 16;  // no two calls in a row plan the same
  std::vector<std::vector<int64_t>> kv_lens(kBatches);
  for (std::vector<int64_t>& kv_len : kv_lens) {
    kv_len.resize(static_cast<size_t>(c.num_requests));
    for (int64_t& n : kv_len) n = length(rng);
  }
  const std::vector<int64_t> page_begin(static_cast<size_t>(c.num_requests), 0);
  const DecodePlanLimits limits{.num_slots = c.num_slots,
                                .max_partials = 2 * int64_t{c.num_slots} + 2};
  DecodePlan plan;
  harness.Measure({.text = text, .backend = "plan"}, [&](int64_t i) {
    PlanDecode({kv_lens[static_cast<size_t>(i % kBatches)], page_begin}, limits, plan);
  });
}

}  // namespace

OpBenchmark DecodePlanBenchmark() { return {"decode_plan", kCases, Run}; }

}  // namespace flashinfer::bench
