// SPDX-License-Identifier: Apache-2.0
// The calls, and their tensors.
#include "device/family_calls.h"

#include <algorithm>
#include <random>
#include <utility>

#include "flashinfer/flashinfer.h"
#include "support/cases/attention.h"
#include "support/page_tables.h"

namespace flashinfer::test {
namespace {

constexpr int64_t kTokens = 37;

/// Tensors of a call, on the device from the start.
struct RowTensors {
  HostTensor x{DType::kBF16, {kTokens, 1024}};
  HostTensor residual{DType::kBF16, {kTokens, 1024}};
  HostTensor weight{DType::kBF16, {1024}};
  HostTensor out{DType::kBF16, {kTokens, 1024}};
  HostTensor half{DType::kBF16, {kTokens, 512}};

  void Fill(uint64_t seed) {
    std::mt19937_64 rng(seed);
    for (HostTensor* t : {&x, &residual, &weight}) t->FillNormal(rng);
  }
};

FamilyCall RowCall(Device device, std::string name,
                   const std::function<void(RowTensors&, DeviceCopies&, Stream)>& run,
                   const std::function<std::vector<HostTensor*>(RowTensors&)>& outputs) {
  auto on = std::make_shared<DeviceCopies>(device);
  auto t = std::make_shared<RowTensors>();
  for (const HostTensor* tensor : {&t->x, &t->residual, &t->weight, &t->out, &t->half}) {
    (*on)(*tensor);
  }
  return {.name = std::move(name),
          .prepare = [t](uint64_t seed, Stream) { t->Fill(seed); },
          .run = [t, on, run](Stream stream) { run(*t, *on, stream); },
          .outputs = outputs(*t),
          .on = on};
}

FamilyCall RopeCall(Device device) {
  struct Tensors {
    HostTensor q{DType::kBF16, {kTokens, 8, 128}};
    HostTensor k{DType::kBF16, {kTokens, 2, 128}};
    HostTensor pos_ids{DType::kI32, {kTokens}};
  };
  auto on = std::make_shared<DeviceCopies>(device);
  auto t = std::make_shared<Tensors>();
  return {.name = "rope",
          .prepare =
              [t](uint64_t seed, Stream) {
                std::mt19937_64 rng(seed);
                t->q.FillNormal(rng);
                t->k.FillNormal(rng);
                t->pos_ids.FillUniform(rng, 0, 100000);
              },
          .run =
              [t, on](Stream stream) {
                DeviceCopies& d = *on;
                ApplyRope(d(t->q), d(t->k), d(t->pos_ids), d(t->q), d(t->k), {}, stream);
              },
          .outputs = {&t->q, &t->k},
          .on = on};
}

/// Tokens that go to, or come from, the end of each request; where that is depends on the seed.
struct PagedTokens {
  AttentionCase shape{AttentionOf(DType::kBF16, DType::kBF16, DType::kBF16, 2, 2, 64, 64, 16),
                      {20, 17},
                      {400, 333}};
  AttentionInputs in{shape, 3};
  HostTensor k{DType::kBF16, {kTokens, 2, 64}};
  HostTensor v{DType::kBF16, {kTokens, 2, 64}};
  HostTensor requests{DType::kI32, {kTokens}};
  HostTensor positions{DType::kI32, {kTokens}};

  void Fill(uint64_t seed) {
    std::mt19937_64 rng(seed);
    k.FillNormal(rng);
    v.FillNormal(rng);
    const auto first = static_cast<int64_t>(rng() % 300);
    for (int64_t i = 0; i < kTokens; ++i) {
      requests.Set({i}, i < 20 ? 0 : 1);
      positions.Set({i}, static_cast<double>(first + (i < 20 ? i : i - 20)));
    }
  }
};

FamilyCall PageCall(Device device, bool gathers) {
  auto on = std::make_shared<DeviceCopies>(device);
  auto t = std::make_shared<PagedTokens>();
  (*on)(t->in.k_pool);
  (*on)(t->in.v_pool);
  const auto run = [t, on, gathers](Stream stream) {
    DeviceCopies& d = *on;
    const PagedKvCache host = t->in.cache();
    const PagedKvCache cache{d(host.k), d(host.v), host.layout};
    PageTable pages = t->in.pages();
    pages.indptr = d(pages.indptr);
    pages.indices = d(pages.indices);
    if (gathers) {
      GatherPagedKvCache(cache, pages, d(t->requests), d(t->positions), d(t->k), d(t->v), {},
                         stream);
    } else {
      AppendPagedKvCache(d(t->k), d(t->v), d(t->requests), d(t->positions), cache, pages, {},
                         stream);
    }
  };
  std::vector<HostTensor*> outputs{&t->in.k_pool, &t->in.v_pool};
  if (gathers) outputs = {&t->k, &t->v};
  return {.name = gathers ? "page_gather" : "page_append",
          .prepare = [t](uint64_t seed, Stream) { t->Fill(seed); },
          .run = run,
          .outputs = outputs,
          .on = on};
}

FamilyCall MergeCall(Device device, bool merges_many) {
  struct Tensors {
    HostTensor v{DType::kBF16, {kTokens, 4, 2, 64}};
    HostTensor s{DType::kF32, {kTokens, 4, 2}};
    HostTensor v_merged{DType::kBF16, {kTokens, 2, 64}};
    HostTensor s_merged{DType::kF32, {kTokens, 2}};
    HostTensor v_a{DType::kBF16, {kTokens, 2, 64}};
    HostTensor s_a{DType::kF32, {kTokens, 2}};
    HostTensor v_b{DType::kBF16, {kTokens, 2, 64}};
    HostTensor s_b{DType::kF32, {kTokens, 2}};
  };
  auto on = std::make_shared<DeviceCopies>(device);
  auto t = std::make_shared<Tensors>();
  const auto run = [t, on, merges_many](Stream stream) {
    DeviceCopies& d = *on;
    if (merges_many) {
      MergeStates(d(t->v), d(t->s), d(t->v_merged), d(t->s_merged), {}, stream);
    } else {
      MergeState(d(t->v_a), d(t->s_a), d(t->v_b), d(t->s_b), d(t->v_merged), d(t->s_merged), {},
                 stream);
    }
  };
  return {.name = merges_many ? "merge_states" : "merge_state",
          .prepare =
              [t](uint64_t seed, Stream) {
                std::mt19937_64 rng(seed);
                for (HostTensor* x : {&t->v, &t->v_a, &t->v_b}) x->FillNormal(rng);
                for (HostTensor* x : {&t->s, &t->s_a, &t->s_b}) x->FillNormal(rng, 4);
              },
          .run = run,
          .outputs = {&t->v_merged, &t->s_merged},
          .on = on};
}

/// As many requests each time, of other lengths: some cut into pieces, some not, one empty. The
/// plan is part of the call where the device makes it.
FamilyCall DecodeCall(Device device, bool plans_on_device) {
  struct Tensors {
    explicit Tensors(Device where)
        : problem(AttentionOf(DType::kBF16, DType::kBF16, DType::kBF16, 8, 2, 64, 64, 16)),
          in({problem, {1, 1, 1, 1}, {3000, 3000, 3000, 3000}}, 5),
          table(in.indices),
          indptr(5, 0),
          last(4, 0),
          workspace(where),
          decode(workspace) {
      problem.arch = cuda::ArchOf(where);
    }
    /// Every request has pages for 3000 tokens, and uses the first of them.
    void Plan(std::mt19937_64& rng, DeviceCopies& on, bool on_device, Stream stream) {
      const bool has_empty = rng() % 2 == 0;
      for (size_t b = 0; b < 4; ++b) {
        const auto kv_len = static_cast<int32_t>(b == 3 && has_empty ? 0 : rng() % 3000 + 1);
        const int32_t num_pages = (kv_len + 15) / 16;
        std::copy_n(in.indices.begin() + in.indptr[b], num_pages, table.begin() + indptr[b]);
        indptr[b + 1] = indptr[b] + num_pages;
        last[b] = kv_len == 0 ? 0 : (kv_len - 1) % 16 + 1;
      }
      const TensorView pages = on(ViewOf(table));
      if (!on_device)
        return decode.Plan(problem, {ViewOf(indptr), pages, ViewOf(last)}, {}, stream);
      if (std::exchange(is_planned, true)) return;
      decode.PlanOnDevice(problem, {on(ViewOf(indptr)), pages, on(ViewOf(last))}, {}, stream);
    }
    AttentionProblem problem;
    AttentionInputs in;
    std::vector<int32_t> table, indptr, last;
    bool is_planned = false;
    Workspace workspace;
    BatchDecode decode;
  };
  auto on = std::make_shared<DeviceCopies>(device);
  auto t = std::make_shared<Tensors>(device);
  (*on)(t->in.k_pool);
  (*on)(t->in.v_pool);
  (*on)(ViewOf(t->table));
  const auto prepare = [t, on, plans_on_device](uint64_t seed, Stream stream) {
    std::mt19937_64 rng(seed);
    t->in.q.FillNormal(rng);
    t->Plan(rng, *on, plans_on_device, stream);
  };
  return {.name = plans_on_device ? "batch_decode, planned on the device" : "batch_decode",
          .prepare = prepare,
          .run =
              [t, on, plans_on_device](Stream stream) {
                DeviceCopies& d = *on;
                const PagedKvCache cache = t->in.cache();
                if (plans_on_device) t->decode.Replan(stream);
                t->decode.Run(d(t->in.q), {d(cache.k), d(cache.v), cache.layout}, d(t->in.out),
                              d(t->in.lse), {}, stream);
              },
          .outputs = {&t->in.out, &t->in.lse},
          .on = on};
}

}  // namespace

std::vector<FamilyCall> FamilyCalls(Device device) {
  std::vector<FamilyCall> calls;
  calls.push_back(RowCall(
      device, "norm",
      [](RowTensors& t, DeviceCopies& on, Stream stream) {
        RmsNorm(on(t.x), on(t.weight), on(t.out), {}, stream);
      },
      [](RowTensors& t) { return std::vector<HostTensor*>{&t.out}; }));
  calls.push_back(RowCall(
      device, "norm after adding",
      [](RowTensors& t, DeviceCopies& on, Stream stream) {
        FusedAddRmsNorm(on(t.x), on(t.residual), on(t.weight), on(t.x), {}, stream);
      },
      [](RowTensors& t) {
        return std::vector<HostTensor*>{&t.x, &t.residual};
      }));
  calls.push_back(RowCall(
      device, "activation",
      [](RowTensors& t, DeviceCopies& on, Stream stream) {
        SiluAndMul(on(t.x), on(t.half), {}, stream);
      },
      [](RowTensors& t) { return std::vector<HostTensor*>{&t.half}; }));
  calls.push_back(RopeCall(device));
  calls.push_back(PageCall(device, false));
  calls.push_back(PageCall(device, true));
  calls.push_back(MergeCall(device, false));
  calls.push_back(MergeCall(device, true));
  calls.push_back(DecodeCall(device, false));
  calls.push_back(DecodeCall(device, true));
  for (const auto& others : {PlannedCalls, TokenCalls}) {
    for (FamilyCall& call : others(device)) calls.push_back(std::move(call));
  }
  return calls;
}

}  // namespace flashinfer::test
