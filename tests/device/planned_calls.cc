// SPDX-License-Identifier: Apache-2.0
// Calls of attention that is planned on the host, for a batch that stays.
#include <random>
#include <utility>

#include "device/family_calls.h"
#include "flashinfer/flashinfer.h"
#include "support/cases/attention.h"
#include "support/cases/mla.h"
#include "support/page_tables.h"

namespace flashinfer::test {
namespace {

AttentionCase PrefillCase(bool is_ragged) {
  AttentionCase c{AttentionOf(DType::kBF16, DType::kBF16, DType::kBF16, 8, 2, 64, 64, 16),
                  {3, 40, 1},
                  {2000, 40, 77}};
  c.problem.mask = MaskMode::kCausal;
  c.is_ragged = is_ragged;
  return c;
}

template <class Prefill>
struct PrefillTensors {
  PrefillTensors(const AttentionCase& c, Device device)
      : in(c, 11), workspace(device), prefill(workspace) {}
  AttentionInputs in;
  bool is_planned = false;
  Workspace workspace;
  Prefill prefill;
};

FamilyCall PagedPrefillCall(Device device) {
  const AttentionCase c = PrefillCase(false);
  auto on = std::make_shared<DeviceCopies>(device);
  auto t = std::make_shared<PrefillTensors<BatchPrefill>>(c, device);
  (*on)(t->in.k_pool);
  (*on)(t->in.v_pool);
  return {.name = "batch_prefill",
          .prepare =
              [t, on, c](uint64_t seed, Stream stream) {
                std::mt19937_64 rng(seed);
                t->in.q.FillNormal(rng);
                if (std::exchange(t->is_planned, true)) return;
                PageTable pages = t->in.pages();
                pages.indices = (*on)(pages.indices);
                t->prefill.Plan(c.problem, t->in.qo_indptr_view(), pages, {}, {}, stream);
              },
          .run =
              [t, on](Stream stream) {
                DeviceCopies& d = *on;
                const PagedKvCache cache = t->in.cache();
                t->prefill.Run(d(t->in.q), {d(cache.k), d(cache.v), cache.layout}, d(t->in.out),
                               d(t->in.lse), {}, stream);
              },
          .outputs = {&t->in.out, &t->in.lse},
          .on = on};
}

FamilyCall RaggedPrefillCall(Device device) {
  const AttentionCase c = PrefillCase(true);
  auto on = std::make_shared<DeviceCopies>(device);
  auto t = std::make_shared<PrefillTensors<BatchPrefillRagged>>(c, device);
  (*on)(t->in.k_pool);
  (*on)(t->in.v_pool);
  return {.name = "batch_prefill_ragged",
          .prepare =
              [t, c](uint64_t seed, Stream stream) {
                std::mt19937_64 rng(seed);
                t->in.q.FillNormal(rng);
                if (std::exchange(t->is_planned, true)) return;
                t->prefill.Plan(c.problem, t->in.qo_indptr_view(), t->in.kv_indptr_view(), {}, {},
                                stream);
              },
          .run =
              [t, on](Stream stream) {
                DeviceCopies& d = *on;
                const RaggedKv kv = t->in.ragged();
                t->prefill.Run(d(t->in.q), {d(kv.k), d(kv.v), kv.layout}, d(t->in.out),
                               d(t->in.lse), {}, stream);
              },
          .outputs = {&t->in.out, &t->in.lse},
          .on = on};
}

FamilyCall MlaCall(Device device) {
  struct Tensors {
    Tensors(const MlaCase& c, Device where) : in(c, 13), workspace(where), mla(workspace) {}
    MlaInputs in;
    bool is_planned = false;
    Workspace workspace;
    BatchMla mla;
  };
  MlaCase c;
  c.problem = MlaOf(DType::kF16, DType::kF16, DType::kF16, 8, 128, 64, 16);
  c.problem.causal = true;
  c.q_len = {1, 2, 1};
  c.kv_len = {1500, 33, 64};
  auto on = std::make_shared<DeviceCopies>(device);
  auto t = std::make_shared<Tensors>(c, device);
  (*on)(t->in.pool);
  (*on)(t->in.kpe_pool);
  return {.name = "batch_mla",
          .prepare =
              [t, on, c](uint64_t seed, Stream stream) {
                std::mt19937_64 rng(seed);
                t->in.q_nope.FillNormal(rng);
                t->in.q_pe.FillNormal(rng);
                if (std::exchange(t->is_planned, true)) return;
                MlaPageTable pages = t->in.pages();
                pages.indices = (*on)(pages.indices);
                t->mla.Plan(c.problem, t->in.qo_indptr_view(), pages, {}, stream);
              },
          .run =
              [t, on](Stream stream) {
                DeviceCopies& d = *on;
                MlaCache cache = t->in.cache();
                cache.ckv = d(cache.ckv);
                cache.kpe = d(cache.kpe);
                t->mla.Run(d(t->in.q_nope), d(t->in.q_pe), cache, d(t->in.out), d(t->in.lse),
                           stream);
              },
          .outputs = {&t->in.out, &t->in.lse},
          .on = on};
}

/// Two requests that share their first pages.
FamilyCall CascadeCall(Device device) {
  struct Tensors {
    Tensors(const AttentionCase& c, Device where)
        : in(c, 17), workspace(where), cascade(workspace) {}
    AttentionInputs in;
    std::vector<int32_t> shared_qo{0, 6}, own_qo{0, 2, 6};
    std::vector<int32_t> shared_indptr{0, 4}, own_indptr{0, 2, 5};
    std::vector<int32_t> shared_last{16}, own_last{9, 16};
    std::vector<int32_t> shared_pages, own_pages;
    bool is_planned = false;
    Workspace workspace;
    MultiLevelCascadeAttention cascade;
  };
  // One request of nine pages: the first four are shared, the others belong to one of the two.
  AttentionCase c{
      AttentionOf(DType::kBF16, DType::kBF16, DType::kBF16, 8, 2, 64, 64, 16), {6}, {9 * 16}};
  c.problem.mask = MaskMode::kCausal;
  auto on = std::make_shared<DeviceCopies>(device);
  auto t = std::make_shared<Tensors>(c, device);
  t->shared_pages.assign(t->in.indices.begin(), t->in.indices.begin() + 4);
  t->own_pages.assign(t->in.indices.begin() + 4, t->in.indices.end());
  (*on)(t->in.k_pool);
  (*on)(t->in.v_pool);
  return {
      .name = "cascade",
      .prepare =
          [t, on, c](uint64_t seed, Stream stream) {
            std::mt19937_64 rng(seed);
            t->in.q.FillNormal(rng);
            if (std::exchange(t->is_planned, true)) return;
            DeviceCopies& d = *on;
            const CascadeLevel levels[] = {
                {ViewOf(t->shared_qo),
                 {ViewOf(t->shared_indptr), d(ViewOf(t->shared_pages)), ViewOf(t->shared_last)}},
                {ViewOf(t->own_qo),
                 {ViewOf(t->own_indptr), d(ViewOf(t->own_pages)), ViewOf(t->own_last)}}};
            t->cascade.Plan(c.problem, levels, {}, stream);
          },
      .run =
          [t, on](Stream stream) {
            DeviceCopies& d = *on;
            const PagedKvCache cache = t->in.cache();
            t->cascade.Run(d(t->in.q), {d(cache.k), d(cache.v), cache.layout}, d(t->in.out),
                           d(t->in.lse), {}, stream);
          },
      .outputs = {&t->in.out, &t->in.lse},
      .on = on};
}

}  // namespace

std::vector<FamilyCall> PlannedCalls(Device device) {
  std::vector<FamilyCall> calls;
  calls.push_back(PagedPrefillCall(device));
  calls.push_back(RaggedPrefillCall(device));
  calls.push_back(MlaCall(device));
  calls.push_back(CascadeCall(device));
  return calls;
}

}  // namespace flashinfer::test
