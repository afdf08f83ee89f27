// SPDX-License-Identifier: Apache-2.0
// Plans of prefill and of latent attention that a kernel makes: those of the host, and one
// recording for batches of all lengths.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <random>
#include <tuple>

#include "cuda/launch.h"
#include "device/probe.h"
#include "flashinfer/attention/prefill.h"
#include "flashinfer/device.h"
#include "jit/store.h"
#include "kernels/attention/prefill_plan_spec.h"
#include "plan/attention_plan.h"
#include "support/attention_compare.h"
#include "support/cases/attention.h"
#include "support/cases/mla.h"
#include "support/page_tables.h"

namespace flashinfer::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const Device kDevice{DeviceType::kCuda, 0};

/// A batch of up to so many requests and tokens; some have no token, some no key.
struct Lengths {
  std::vector<int32_t> q_len, kv_len, qo_indptr, indptr, last_page_len;

  Lengths(std::mt19937_64& rng, int32_t num_requests, int64_t max_tokens, int32_t longest,
          int32_t page_size)
      : qo_indptr{0}, indptr{0} {
    const auto below = [&](int64_t n) { return static_cast<int32_t>(rng() % uint64_t(n)); };
    const bool are_equal = max_tokens >= num_requests && below(4) == 0;
    for (int32_t b = 0; b < num_requests; ++b) {
      if (are_equal) {
        Add(1, longest, page_size);
        continue;
      }
      const int64_t rest = max_tokens - qo_indptr.back();
      const int64_t limit = below(3) == 0 ? rest : std::min<int64_t>(rest, 20);
      const int32_t tokens = below(6) == 0 ? 0 : below(limit + 1);
      Add(tokens, below(6) == 0 ? 0 : below(below(3) == 0 ? longest + 1 : longest / 8 + 1),
          page_size);
    }
  }

 private:
  void Add(int32_t tokens, int32_t keys, int32_t page_size) {
    q_len.push_back(tokens);
    kv_len.push_back(keys);
    qo_indptr.push_back(qo_indptr.back() + tokens);
    indptr.push_back(indptr.back() + (keys + page_size - 1) / page_size);
    last_page_len.push_back(keys == 0 ? 0 : (keys - 1) % page_size + 1);
  }
};

using Fields = std::array<int32_t, 8>;

Fields FieldsOf(const kernels::PrefillPiece& p) { return std::bit_cast<Fields>(p); }

/// The pieces of the host's plan.
std::vector<kernels::PrefillPiece> PiecesOf(const AttentionPlan& plan) {
  std::vector<kernels::PrefillPiece> pieces;
  for (const AttentionWork& w : plan.work) {
    kernels::PrefillPiece piece{.request = w.request,
                                .row_begin = static_cast<int32_t>(w.row_begin),
                                .kv_begin = static_cast<int32_t>(w.kv_begin),
                                .kv_end = static_cast<int32_t>(w.kv_end),
                                .partial = static_cast<int32_t>(w.partial),
                                .first_partial = 0,
                                .num_partials = 0,
                                .merge = 0};
    for (size_t i = 0; i < plan.merges.size() && w.partial >= 0; ++i) {
      const AttentionMerge& m = plan.merges[i];
      if (w.partial < m.first_partial || w.partial >= m.first_partial + m.num_partials) continue;
      piece.first_partial = static_cast<int32_t>(m.first_partial);
      piece.num_partials = m.num_partials;
      piece.merge = static_cast<int32_t>(i);
    }
    pieces.push_back(piece);
  }
  return pieces;
}

/// Classes of costs as the kernel orders them.
int32_t ClassOf(const Lengths& batch, const kernels::PrefillPlanParams& p,
                const kernels::PrefillPiece& piece) {
  const auto q_len = batch.q_len[static_cast<size_t>(piece.request)];
  const int32_t rows = std::min(p.limits.rows_tile, q_len * p.group_size - piece.row_begin);
  const int64_t cost = kernels::AttentionCost(rows, piece.kv_end - piece.kv_begin);
  return static_cast<int32_t>(std::bit_cast<uint32_t>(static_cast<float>(cost)) >> 20);
}

void ExpectSamePlan(const Lengths& batch, kernels::PrefillPlanParams p) {
  const auto num_requests = static_cast<int32_t>(batch.q_len.size());
  const std::vector<int64_t> kv_len(batch.kv_len.begin(), batch.kv_len.end());
  AttentionPlan plan;
  PlanAttention({batch.q_len, kv_len, 1, p.group_size, p.causal, p.window_left}, p.limits, plan);
  const int64_t max_tiles =
      kernels::MaxRowTiles(num_requests, p.max_tokens, p.group_size, p.limits.rows_tile);
  const auto max_pieces = static_cast<size_t>(max_tiles + p.limits.max_partials);
  const probe::Buffer qo_indptr(batch.qo_indptr), indptr(batch.indptr);
  const probe::Buffer lengths(p.has_kv_len ? batch.kv_len : batch.last_page_len);
  const probe::Buffer requests(sizeof(kernels::PrefillRequest) * batch.q_len.size());
  const probe::Buffer pieces(sizeof(kernels::PrefillPiece) * max_pieces);
  const probe::Buffer unsorted(sizeof(kernels::PrefillPiece) * max_pieces);
  const probe::Buffer sums(sizeof(int64_t) * static_cast<size_t>(max_tiles));
  p.qo_indptr = static_cast<const int32_t*>(qo_indptr.data());
  p.indptr = static_cast<const int32_t*>(indptr.data());
  p.lengths = static_cast<const int32_t*>(lengths.data());
  p.qo_indptr_stride = p.indptr_stride = p.lengths_stride = 1;
  p.requests = static_cast<kernels::PrefillRequest*>(requests.data());
  p.pieces = static_cast<kernels::PrefillPiece*>(pieces.data());
  p.unsorted = static_cast<kernels::PrefillPiece*>(unsorted.data());
  p.sums = static_cast<int64_t*>(sums.data());
  p.num_requests = num_requests;
  p.max_tiles = static_cast<int32_t>(max_tiles);
  p.max_pages = batch.indptr.back();
  cuda::Launch(jit::GetKernel(kernels::MakePrefillPlanSpec(num_requests), kDevice), {}, p,
               {kDevice});
  const auto got_requests = requests.Read<kernels::PrefillRequest>();
  for (size_t b = 0; b < batch.q_len.size(); ++b) {
    EXPECT_EQ(got_requests[b].q_begin, batch.qo_indptr[b]);
    EXPECT_EQ(got_requests[b].q_len, batch.q_len[b]);
    EXPECT_EQ(got_requests[b].kv_len, batch.kv_len[b]);
    EXPECT_EQ(got_requests[b].page_begin, batch.indptr[b]);
  }
  auto got = pieces.Read<kernels::PrefillPiece>();
  std::vector<kernels::PrefillPiece> expected = PiecesOf(plan);
  ASSERT_LE(expected.size(), got.size());
  const auto end = got.begin() + static_cast<int64_t>(expected.size());
  for (auto piece = end; piece != got.end(); ++piece) {
    EXPECT_EQ(FieldsOf(*piece), (Fields{0, kernels::kNoRow, 0, 0, -1, 0, 0, 0}));
  }
  for (auto piece = got.begin(); piece + 1 < end; ++piece) {
    const int32_t least = ClassOf(batch, p, got[0]) - kernels::kCostClasses + 1;
    EXPECT_GE(std::max(least, ClassOf(batch, p, piece[0])), ClassOf(batch, p, piece[1]));
  }
  const auto less = [](const auto& a, const auto& b) { return FieldsOf(a) < FieldsOf(b); };
  std::sort(got.begin(), end, less);
  std::sort(expected.begin(), expected.end(), less);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(FieldsOf(got[i]), FieldsOf(expected[i])) << i;
  }
}

TEST(DevicePrefillPlan, IsThatOfTheHost) {
  std::string why;
  if (!cuda::Available(&why)) GTEST_SKIP() << why;
  std::mt19937_64 rng(probe::Random()());
  const auto any = [&](std::initializer_list<int32_t> of) { return of.begin()[rng() % of.size()]; };
  for (int i = 0; i < 40; ++i) {
    const int32_t num_requests = any({1, 2, 31, 33, 64, 256, 257, 1025, 4096});
    const int32_t page_size = any({1, 16, 17, 64});
    const int32_t max_tokens = any({0, 1, 300, 5000});
    const int32_t longest = any({1, 200, num_requests > 64 ? 3000 : 60000});
    const Lengths batch(rng, num_requests, max_tokens, longest, page_size);
    const int32_t lanes = any({1, 2, 8, 33});
    kernels::PrefillPlanParams p{};
    p.limits = {.rows_tile = any({16, 64, 128}),
                .kv_tile = any({8, 32, 64}),
                .num_lanes = lanes,
                .min_kv_chunk = any({64, 256}),
                .fixed_kv_chunk = 0,
                .num_slots = any({0, 4 * lanes}),
                .num_heads = any({1, 3, 8}),
                .max_partials = rng() % 3 == 0 ? any({0, 7, 100}) : MaxPartials(lanes)};
    p.max_tokens = max_tokens;
    p.page_size = page_size;
    p.group_size = any({1, 4, 16, 128});
    p.window_left = any({-1, -1, 0, 100});
    p.causal = rng() % 2 == 0;
    p.has_kv_len = rng() % 2 == 0;
    SCOPED_TRACE(
        fmt::format("{} requests of up to {} keys, {} tokens, group {}, page_size {}, {} "
                    "lanes, {} partials, causal {}, window {}",
                    num_requests, longest, max_tokens, p.group_size, page_size, lanes,
                    p.limits.max_partials, p.causal, p.window_left));
    ExpectSamePlan(batch, p);
    if (HasFailure()) return;
  }
}

constexpr int32_t kMaxRequests = 5;
constexpr int32_t kMaxTokens = 70;
constexpr int32_t kLongest = 700;
constexpr double kUntouched = 7;

/// Lengths and pages as a graph has recorded where they are.
struct Tables {
  std::vector<int32_t> qo_indptr, indptr, indices, lengths;

  explicit Tables(size_t num_pages)
      : qo_indptr(kMaxRequests + 1, 0),
        indptr(kMaxRequests + 1, 0),
        indices(num_pages, 0),
        lengths(kMaxRequests, 0) {}

  /// Request b takes the first of the pages that are `from`'s, which has room for kLongest each;
  /// keys without pages have none.
  void Set(const Lengths& batch, const std::vector<int32_t>& from,
           const std::vector<int32_t>& from_indptr, const std::vector<int32_t>& given_lengths) {
    qo_indptr = batch.qo_indptr;
    indptr = batch.indptr;
    lengths = given_lengths;
    std::fill(indices.begin(), indices.end(), -1);
    for (size_t b = 0; b < kMaxRequests && !from.empty(); ++b) {
      std::copy_n(from.begin() + from_indptr[b], indptr[b + 1] - indptr[b],
                  indices.begin() + indptr[b]);
    }
  }
};

/// The same on the device.
struct DeviceTables {
  TensorView qo_indptr, indptr, indices, lengths;
};

std::vector<int32_t> MostTokens() { return {kMaxTokens - kMaxRequests + 1, 1, 1, 1, 1}; }
std::vector<int32_t> MostKeys() { return std::vector<int32_t>(kMaxRequests, kLongest); }

/// Prefill as Recorded wants it: its calls, its tensors and its oracle.
template <class Prefill>
class PrefillCalls {
 public:
  using Problem = AttentionProblem;
  static constexpr bool kIsRagged = std::is_same_v<Prefill, BatchPrefillRagged>;

  explicit PrefillCalls(const AttentionProblem& problem)
      : case_{.problem = problem,
              .q_len = MostTokens(),
              .kv_len = MostKeys(),
              .is_ragged = kIsRagged},
        in(case_, 7) {}

  int32_t page_size() const { return kIsRagged ? 1 : case_.problem.page_size; }

  void PlanOnDevice(const DeviceTables& t, Backend backend, Stream stream) {
    if constexpr (kIsRagged) {
      prefill_.PlanOnDevice(case_.problem, t.qo_indptr, t.indptr, kMaxTokens,
                            kMaxRequests * kLongest, backend, stream);
    } else {
      prefill_.PlanOnDevice(case_.problem, t.qo_indptr, {t.indptr, t.indices, t.lengths},
                            kMaxTokens, backend, stream);
    }
  }
  void Replan(Stream stream) const { prefill_.Replan(stream); }
  void Run(DeviceCopies& on, Stream stream) const {
    on(in.k_pool);
    on(in.v_pool);
    const TensorView q = on(in.q), out = on(in.out), lse = on(in.lse);
    if constexpr (kIsRagged) {
      const RaggedKv kv = in.ragged();
      prefill_.Run(q, {on(kv.k), on(kv.v), kv.layout}, out, lse, {}, stream);
    } else {
      const PagedKvCache cache = in.cache();
      prefill_.Run(q, {on(cache.k), on(cache.v), cache.layout}, out, lse, {}, stream);
    }
  }

  /// Makes the inputs those of a batch; returns the lengths of its requests.
  const std::vector<int32_t>& Take(const Lengths& batch, std::mt19937_64& rng) {
    in.q.FillNormal(rng);
    in.kv_indptr = batch.indptr;  // of ragged keys
    return batch.last_page_len;
  }
  AttentionResult Expected(const Lengths& batch) {
    case_.q_len = batch.q_len;
    case_.kv_len = batch.kv_len;
    return AttentionOracle(case_, in);
  }
  void ExpectMatches(const AttentionResult& expected) const {
    test::ExpectMatches(case_, in, expected);
  }

 private:
  AttentionCase case_;

 public:
  AttentionInputs in;

 private:
  Workspace workspace_{kDevice};
  Prefill prefill_{workspace_};
};

/// The same of latent attention.
class MlaCalls {
 public:
  using Problem = MlaProblem;

  explicit MlaCalls(const MlaProblem& problem)
      : case_{problem, MostTokens(), MostKeys()}, in(case_, 7) {}

  int32_t page_size() const { return case_.problem.page_size; }

  void PlanOnDevice(const DeviceTables& t, Backend backend, Stream stream) {
    mla_.PlanOnDevice(case_.problem, t.qo_indptr, {t.indptr, t.indices, t.lengths}, kMaxTokens,
                      backend, stream);
  }
  void Replan(Stream stream) const { mla_.Replan(stream); }
  void Run(DeviceCopies& on, Stream stream) const {
    on(in.pool);
    on(in.kpe_pool);
    MlaCache cache = in.cache();
    for (TensorView* part : {&cache.ckv, &cache.kpe}) *part = on(*part);
    mla_.Run(on(in.q_nope), on(in.q_pe), cache, on(in.out), on(in.lse), stream);
  }

  const std::vector<int32_t>& Take(const Lengths& batch, std::mt19937_64& rng) {
    in.q_nope.FillNormal(rng);
    return batch.kv_len;
  }
  MlaResult Expected(const Lengths& batch) {
    case_.q_len = batch.q_len;
    case_.kv_len = batch.kv_len;
    return MlaOracle(case_, in);
  }
  void ExpectMatches(const MlaResult& expected) const {
    EXPECT_TRUE(AllNear(in.out, expected.out, ToleranceOf(DType::kF16, 512)));
    EXPECT_TRUE(AllNear(in.lse, expected.lse, LseTolerance()));
  }

 private:
  MlaCase case_;

 public:
  MlaInputs in;

 private:
  Workspace workspace_{kDevice};
  BatchMla mla_{workspace_};
};

/// One recording of a plan and two runs, for batches of all lengths.
template <class Calls>
class Recorded {
 public:
  Recorded(const typename Calls::Problem& problem, std::string_view backend)
      : calls_(problem), tables_(std::max<size_t>(1, calls_.in.indices.size())) {
    const Stream stream = stream_.stream();
    calls_.PlanOnDevice({on_(ViewOf(tables_.qo_indptr)), on_(ViewOf(tables_.indptr)),
                         on_(ViewOf(tables_.indices)), on_(ViewOf(tables_.lengths))},
                        Backend(backend), stream);
    calls_.Run(on_, stream);  // loads what a recording must not
    cuda::Synchronize(stream);
    graph_.emplace(stream, [&] {
      calls_.Replan(stream);
      calls_.Run(on_, stream);
      calls_.Run(on_, stream);  // counters are those of a first run
    });
  }

  void ExpectRight(std::mt19937_64& rng) {
    auto& in = calls_.in;
    const Lengths batch(rng, kMaxRequests, kMaxTokens, kLongest, calls_.page_size());
    tables_.Set(batch, in.indices, in.indptr, calls_.Take(batch, rng));
    in.qo_indptr = batch.qo_indptr;
    for (HostTensor* x : {&in.out, &in.lse}) x->Fill(kUntouched);
    on_.Send();
    graph_->Launch(stream_.stream());
    cuda::Synchronize(stream_.stream());
    on_.Fetch();
    auto expected = calls_.Expected(batch);
    // Behind a smaller batch's rows lies what was there before.
    expected.out.resize(static_cast<size_t>(in.out.view().num_elements()), kUntouched);
    expected.lse.resize(static_cast<size_t>(in.lse.view().num_elements()), kUntouched);
    calls_.ExpectMatches(expected);
  }

 private:
  Calls calls_;
  Tables tables_;
  OwnedStream stream_{kDevice};
  DeviceCopies on_{kDevice};
  std::optional<RecordedWork> graph_;
};

template <class Calls>
void ExpectOneRecordingServes(const typename Calls::Problem& problem, std::string_view backend,
                              std::string_view what) {
  const uint64_t seed = std::random_device{}();
  std::mt19937_64 rng(seed);
  Recorded<Calls> recorded(problem, backend);
  for (int i = 0; i < 8 && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(fmt::format("{}, {}, seed {}, batch {}", backend, what, seed, i));
    recorded.ExpectRight(rng);
  }
}

template <class Prefill>
void ExpectOneRecordingOfPrefillServes() {
  std::string why;
  if (!cuda::Available(&why)) GTEST_SKIP() << why;
  for (const std::string_view backend : {"cuda.mma", "cuda.simt"}) {
    for (const auto& [mask, window_left] :
         {std::pair{MaskMode::kCausal, -1}, {MaskMode::kNone, 60}}) {
      const DType t = backend == "cuda.mma" ? DType::kF16 : DType::kF32;
      AttentionProblem problem = AttentionOf(t, t, t, 4, 2, 32, 32, 16);
      problem.mask = mask;
      problem.window_left = window_left;
      problem.arch = cuda::ArchOf(kDevice);
      ExpectOneRecordingServes<PrefillCalls<Prefill>>(problem, backend, Name(mask));
    }
  }
}

TEST(DevicePrefillPlan, OneRecordingServesAllBatches) {
  ExpectOneRecordingOfPrefillServes<BatchPrefill>();
}

TEST(DevicePrefillPlan, OneRecordingServesAllBatchesOfRaggedKeys) {
  ExpectOneRecordingOfPrefillServes<BatchPrefillRagged>();
}

TEST(DevicePrefillPlan, OneRecordingServesAllBatchesOfLatentAttention) {
  std::string why;
  if (!cuda::Available(&why)) GTEST_SKIP() << why;
  for (const std::string_view backend : {"cuda.mma", "cuda.simt"}) {
    MlaProblem problem = MlaOf(DType::kF16, DType::kF16, DType::kF16, 3, 64, 16, 16);
    problem.causal = backend == "cuda.mma";
    ExpectOneRecordingServes<MlaCalls>(problem, backend, "latent");
  }
}

TEST(DevicePrefillPlan, RefusalsNameTheArgument) {
  std::string why;
  if (!cuda::Available(&why)) GTEST_SKIP() << why;
  AttentionProblem p = AttentionOf(DType::kF16, DType::kF16, DType::kF16, 4, 2, 64, 64, 16);
  const std::vector<int32_t> numbers(10, 0);
  DeviceCopies on(kDevice);
  const auto there = [&](int64_t size) { return on(ViewOf(numbers)).Slice(0, size); };
  const TensorView here = ViewOf(numbers).Slice(0, 4);
  const PageTable pages{there(4), there(10), there(3)};
  Workspace workspace(kDevice);
  BatchPrefill prefill(workspace);
  const auto expect = [&](const TensorView& qo_indptr, int64_t max_tokens, const char* text) {
    EXPECT_THAT([&] { prefill.PlanOnDevice(p, qo_indptr, pages, max_tokens); },
                ThrowsMessage<Error>(HasSubstr(text)));
  };
  EXPECT_THAT([&] { prefill.Replan(); }, ThrowsMessage<Error>(HasSubstr("Replan()")));
  expect(here, 8, "qo_indptr:");
  expect(there(5), 8, "qo_indptr:");
  expect(there(4), -1, "max_tokens: is -1");
  expect(there(4), int64_t{1} << 30, "max_tokens: is 1073741824, times 2 heads");
  p.mask = MaskMode::kCustom;
  expect(there(4), 8, "mask: is custom");
  p.mask = MaskMode::kCausal;
  p.fixed_split_size = 64;
  expect(there(4), 8, "fixed_split_size: is 64");
  p.fixed_split_size = 0;
  p.has_bias = true;
  expect(there(4), 8, "has_bias: is 1");
  EXPECT_THAT([&] { prefill.Replan(); }, ThrowsMessage<Error>(HasSubstr("Replan()")));
  p.has_bias = false;
  prefill.PlanOnDevice(p, there(4), pages, 8);
  const HostTensor q(DType::kF16, {7, 4, 64}), kv(DType::kF16, {1, 16, 2, 64});
  EXPECT_THAT(
      [&] {
        prefill.Run(on(q), {on(kv), on(kv)}, on(q));
      },
      ThrowsMessage<Error>(HasSubstr("q: ")));
  BatchPrefillRagged ragged(workspace);
  EXPECT_THAT([&] { ragged.Replan(); }, ThrowsMessage<Error>(HasSubstr("Replan()")));
  const auto expect_ragged = [&](const TensorView& kv_indptr, int64_t max_keys, const char* text) {
    EXPECT_THAT([&] { ragged.PlanOnDevice(p, there(4), kv_indptr, 8, max_keys); },
                ThrowsMessage<Error>(HasSubstr(text)));
  };
  expect_ragged(here, 16, "kv_indptr:");
  expect_ragged(there(5), 16, "qo_indptr:");
  expect_ragged(there(0), 16, "kv_indptr: is empty");
  expect_ragged(there(4), -1, "max_keys: is -1");
  expect_ragged(there(4), int64_t{1} << 31, "max_keys: is 2147483648");
  ragged.PlanOnDevice(p, there(4), there(4), 8, 16);
  const HostTensor eight(DType::kF16, {8, 4, 64}), few(DType::kF16, {15, 2, 64});
  EXPECT_THAT(
      [&] {
        ragged.Run(on(eight), {on(few), on(few)}, on(eight));
      },
      ThrowsMessage<Error>(HasSubstr("k: has 15 keys, the plan is of 16")));
  BatchMla mla(workspace);
  EXPECT_THAT([&] { mla.Replan(); }, ThrowsMessage<Error>(HasSubstr("Replan()")));
  MlaProblem latent = MlaOf(DType::kF16, DType::kF16, DType::kF16, 3, 64, 16, 16);
  EXPECT_THAT(
      [&] {
        mla.PlanOnDevice(latent, there(4), {there(4), there(10), here.Slice(0, 3)}, 8);
      },
      ThrowsMessage<Error>(HasSubstr("kv_len:")));
}

}  // namespace
}  // namespace flashinfer::test
