// SPDX-License-Identifier: Apache-2.0
// Plans of decode that a kernel makes: those of the host, and one recording for batches of all
// lengths.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include "cuda/launch.h"
#include "device/probe.h"
#include "flashinfer/attention/decode.h"
#include "flashinfer/device.h"
#include "jit/store.h"
#include "kernels/attention/decode_plan_walk.h"
#include "plan/decode_plan.h"
#include "support/attention_compare.h"
#include "support/cases/attention.h"
#include "support/page_tables.h"

namespace flashinfer::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const Device kDevice{DeviceType::kCuda, 0};

/// A page table of random lengths, none of some.
struct Table {
  std::vector<int32_t> indptr{0};
  std::vector<int32_t> last_page_len;
  std::vector<int64_t> kv_len, page_begin;
};

Table RandomTable(std::mt19937& rng, int32_t num_requests, int32_t longest, int32_t page_size) {
  Table t;
  for (int32_t b = 0; b < num_requests; ++b) {
    const int32_t limit = rng() % 4 == 0 ? longest : longest / 16;
    const auto kv_len =
        rng() % 5 == 0 ? 0 : static_cast<int32_t>(rng() % static_cast<size_t>(limit + 1));
    t.kv_len.push_back(kv_len);
    t.page_begin.push_back(t.indptr.back());
    t.indptr.push_back(t.indptr.back() + (kv_len + page_size - 1) / page_size);
    t.last_page_len.push_back(kv_len == 0 ? 0 : (kv_len - 1) % page_size + 1);
  }
  return t;
}

/// The bytes of a kernel's plan, and of the host's.
void ExpectSamePlan(const Table& table, const DecodePlanLimits& limits, int32_t page_size,
                    int32_t window_left) {
  const auto num_requests = static_cast<int32_t>(table.kv_len.size());
  const auto num_slots = static_cast<size_t>(limits.num_slots);
  DecodePlan plan;
  PlanDecode({table.kv_len, table.page_begin, window_left}, limits, plan);
  const int32_t num_pages = table.indptr.back();
  const probe::Buffer indptr(table.indptr), last_page_len(table.last_page_len);
  const probe::Buffer slots(num_slots * sizeof(kernels::DecodeSlot));
  const probe::Buffer pieces(sizeof(DecodePiece) *
                             static_cast<size_t>(kernels::MaxDecodePieces(
                                 limits, num_requests, int64_t{num_pages} * page_size)));
  const probe::Buffer slot_begin((num_slots + 1) * 4), starts(num_slots * 8), cuts(num_slots * 4);
  const kernels::DecodePlanParams params{
      .indptr = static_cast<const int32_t*>(indptr.data()),
      .last_page_len = static_cast<const int32_t*>(last_page_len.data()),
      .indptr_stride = 1,
      .last_page_len_stride = 1,
      .slots = static_cast<kernels::DecodeSlot*>(slots.data()),
      .memory = {.pieces = static_cast<DecodePiece*>(pieces.data()),
                 .slot_begin = static_cast<int32_t*>(slot_begin.data()),
                 .slot_starts = static_cast<kernels::DecodeSlotStart*>(starts.data()),
                 .cuts = static_cast<int32_t*>(cuts.data()),
                 .sums = nullptr,
                 .num_pieces = nullptr},
      .limits = limits,
      .num_requests = num_requests,
      .max_pages = num_pages,
      .page_size = page_size,
      .window_left = window_left};
  cuda::Launch(jit::GetKernel(kernels::MakeDecodePlanSpec(num_requests), kDevice), {}, params,
               {kDevice});
  EXPECT_EQ(slot_begin.Read<int32_t>(), plan.slot_begin);
  const auto got = pieces.Read<DecodePiece>();
  ASSERT_LE(plan.pieces.size(), got.size());
  const size_t bytes = plan.pieces.size() * sizeof(DecodePiece);
  EXPECT_EQ(std::memcmp(got.data(), plan.pieces.data(), bytes), 0);
  const auto got_slots = slots.Read<kernels::DecodeSlot>();
  for (int32_t s = 0; s < limits.num_slots; ++s) {
    const kernels::DecodeSlot expected =
        kernels::DecodeSlotOf(plan.pieces.data(), plan.slot_begin.data(), s);
    EXPECT_EQ(got_slots[static_cast<size_t>(s)].num_pieces, expected.num_pieces);
    if (expected.num_pieces == 0) continue;
    EXPECT_EQ(std::memcmp(&got_slots[static_cast<size_t>(s)], &expected,
                          offsetof(kernels::DecodeSlot, first_index) + 4),
              0);
  }
}

TEST(DevicePlan, IsThatOfTheHost) {
  std::string why;
  if (!cuda::Available(&why)) GTEST_SKIP() << why;
  std::mt19937 rng = probe::Random();
  const auto any = [&](std::initializer_list<int32_t> of) { return of.begin()[rng() % of.size()]; };
  for (int i = 0; i < 60; ++i) {
    const int32_t num_requests = any({1, 2, 31, 32, 33, 64, 255, 256, 257, 1000, 1025, 4096});
    const int32_t page_size = any({1, 16, 17, 64});
    const int32_t longest = any({1, 100, 2000, num_requests > 64 ? 3000 : 60000});
    const Table table = RandomTable(rng, num_requests, longest, page_size);
    const int32_t num_slots = any({1, 7, 49, 132, 528});
    const DecodePlanLimits limits{.num_slots = num_slots,
                                  .slots_per_wave = any({0, 3, 16, 132}),
                                  .kv_tile = any({8, 32, 64, 128}),
                                  .fixed_kv_chunk = any({0, 0, 0, 100, 512}),
                                  .max_partials = any({0, 10, 2 * num_slots + 2})};
    const int32_t window_left = any({-1, -1, 0, 700});
    SCOPED_TRACE(
        fmt::format("{} requests of up to {} keys, page_size {}, {} slots, fixed {}, "
                    "max_partials {}, window {}",
                    num_requests, longest, page_size, num_slots, limits.fixed_kv_chunk,
                    limits.max_partials, window_left));
    ExpectSamePlan(table, limits, page_size, window_left);
    if (HasFailure()) return;
  }
}

/// A decode whose lengths change on the device, recorded once.
class Recorded {
 public:
  static constexpr int32_t kMaxRequests = 5;
  static constexpr int32_t kLongest = 900;

  Recorded(const AttentionProblem& problem, std::string_view backend)
      : problem_(problem),
        in_({problem, std::vector<int32_t>(kMaxRequests, 1),
             std::vector<int32_t>(kMaxRequests, kLongest)},
            7),
        again_(in_.out.Clone()),
        indptr_(kMaxRequests + 1, 0),
        indices_(in_.indices.size(), 0),
        last_page_len_(kMaxRequests, 0) {
    decode_.PlanOnDevice(problem,
                         {on_(ViewOf(indptr_)), on_(ViewOf(indices_)), on_(ViewOf(last_page_len_))},
                         Backend(backend), stream());
    Run(decode_, in_.out);  // loads what a recording must not
    Run(decode_, again_);
    cuda::Synchronize(stream());
    graph_.emplace(stream(), [&] {
      decode_.Replan(stream());
      Run(decode_, in_.out);
      Run(decode_, again_);
    });
  }

  /// Another batch of up to kMaxRequests, the others without pages.
  void Batch(std::mt19937_64& rng) {
    const int32_t page_size = problem_.page_size;
    kv_len_.assign(kMaxRequests, 0);
    const auto num_requests = static_cast<size_t>(rng() % (kMaxRequests + 1));
    int32_t num_pages = 0;
    for (size_t b = 0; b < kMaxRequests; ++b) {
      if (b < num_requests && rng() % 5 > 0) {
        kv_len_[b] = static_cast<int32_t>(rng() % (rng() % 2 == 0 ? kLongest : 40)) + 1;
      }
      const int32_t count = (kv_len_[b] + page_size - 1) / page_size;
      std::copy_n(in_.indices.begin() + in_.indptr[b], count, indices_.begin() + num_pages);
      num_pages += count;
      indptr_[b + 1] = num_pages;
      last_page_len_[b] = kv_len_[b] == 0 ? 0 : (kv_len_[b] - 1) % page_size + 1;
    }
    std::fill(indices_.begin() + num_pages, indices_.end(), -1);
    in_.q.FillNormal(rng);
    for (HostTensor* x : {&in_.out, &again_, &in_.lse}) {
      x->Fill(std::numeric_limits<double>::quiet_NaN());
    }
    on_.Send();
  }

  void Replay() {
    graph_->Launch(stream());
    cuda::Synchronize(stream());
    on_.Fetch();
  }

  void ExpectRight(std::string_view backend) {
    const AttentionCase c{problem_, std::vector<int32_t>(kMaxRequests, 1), kv_len_};
    ExpectMatches(c, in_, AttentionOracle(c, in_));
    EXPECT_EQ(in_.out.bytes(), again_.bytes());
    // The same plan gives the same bits.
    const HostTensor::Bytes out = in_.out.bytes();
    const HostTensor::Bytes lse = in_.lse.bytes();
    BatchDecode on_host(workspace_);
    on_host.Plan(problem_, {ViewOf(indptr_), on_(ViewOf(indices_)), ViewOf(last_page_len_)},
                 Backend(backend), stream());
    Run(on_host, in_.out);
    cuda::Synchronize(stream());
    on_.Fetch();
    EXPECT_EQ(in_.out.bytes(), out);
    EXPECT_EQ(in_.lse.bytes(), lse);
  }

 private:
  Stream stream() const { return stream_.stream(); }
  void Run(const BatchDecode& decode, const HostTensor& out) {
    const PagedKvCache cache = in_.cache();
    on_(in_.k_pool);
    on_(in_.v_pool);
    decode.Run(on_(in_.q), {on_(cache.k), on_(cache.v), cache.layout}, on_(out), on_(in_.lse), {},
               stream());
  }

  AttentionProblem problem_;
  AttentionInputs in_;
  HostTensor again_;
  std::vector<int32_t> indptr_, indices_, last_page_len_, kv_len_;
  OwnedStream stream_{kDevice};
  DeviceCopies on_{kDevice};
  Workspace workspace_{kDevice};
  BatchDecode decode_{workspace_};
  std::optional<RecordedWork> graph_;
};

TEST(DevicePlan, OneRecordingServesAllBatches) {
  std::string why;
  if (!cuda::Available(&why)) GTEST_SKIP() << why;
  const uint64_t seed = std::random_device{}();
  std::mt19937_64 rng(seed);
  for (const std::string_view backend : {"cuda.simt", "cuda.mma", "cuda.prefill"}) {
    for (const auto& [window_left, fixed_split_size] : {std::pair{-1, 0}, {100, 0}, {-1, 128}}) {
      if (backend == "cuda.prefill" && fixed_split_size > 0) continue;  // refused
      AttentionProblem problem =
          AttentionOf(DType::kF16, DType::kF16, DType::kF16, 4, 2, 64, 64, 16);
      problem.window_left = window_left;
      problem.fixed_split_size = fixed_split_size;
      problem.arch = cuda::ArchOf(kDevice);
      Recorded recorded(problem, backend);
      for (int i = 0; i < 12; ++i) {
        SCOPED_TRACE(fmt::format("{}, window {}, fixed {}, seed {}, batch {}", backend, window_left,
                                 fixed_split_size, seed, i));
        recorded.Batch(rng);
        recorded.Replay();
        recorded.ExpectRight(backend);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(DevicePlan, RefusalsNameTheArgument) {
  std::string why;
  if (!cuda::Available(&why)) GTEST_SKIP() << why;
  const AttentionProblem p = AttentionOf(DType::kF16, DType::kF16, DType::kF16, 4, 2, 64, 64, 16);
  const std::vector<int32_t> numbers(5000, 0);
  DeviceCopies on(kDevice);
  const auto there = [&](int64_t size) { return on(ViewOf(numbers)).Slice(0, size); };
  const TensorView here = ViewOf(numbers).Slice(0, 4);
  Workspace workspace(kDevice);
  BatchDecode decode(workspace);
  const auto expect = [&](const PageTable& pages, const char* text) {
    EXPECT_THAT([&] { decode.PlanOnDevice(p, pages); }, ThrowsMessage<Error>(HasSubstr(text)));
  };
  EXPECT_THAT([&] { decode.Replan(); }, ThrowsMessage<Error>(HasSubstr("Replan()")));
  expect({there(4), there(10), here.Slice(0, 3)}, "last_page_len:");
  expect({here, there(10), there(3)}, "indptr:");
  expect({there(5), there(10), there(3)}, "indptr:");
  expect({there(4), here, there(3)}, "indices:");
  expect({there(4998), there(10), there(4997)}, "last_page_len: has 4997 requests");
  EXPECT_THAT([&] { decode.Replan(); }, ThrowsMessage<Error>(HasSubstr("Replan()")));
  decode.PlanOnDevice(p, {there(4), there(10), there(3)});
  const HostTensor q(DType::kF16, {2, 4, 64}), kv(DType::kF16, {1, 16, 2, 64});
  EXPECT_THAT(
      [&] {
        decode.Run(on(q), {on(kv), on(kv)}, on(q));
      },
      ThrowsMessage<Error>(HasSubstr("q: ")));
  Workspace on_host;
  BatchDecode on_cpu(on_host);
  EXPECT_THAT(
      [&] {
        on_cpu.PlanOnDevice(p, {here, here, here.Slice(0, 3)});
      },
      ThrowsMessage<Error>(HasSubstr("workspace: is in host memory")));
}

}  // namespace
}  // namespace flashinfer::test
