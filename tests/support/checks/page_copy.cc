// SPDX-License-Identifier: Apache-2.0
// Paged copies against loops over slots.
#include "support/checks/page_copy.h"

#include "ops/page_copy.h"
#include "support/cases/attention.h"

namespace flashinfer::test {
namespace {

AttentionCase AttentionOfCopy(const PageCopyCase& c) {
  const AttentionProblem p =
      AttentionOf(c.dtype, c.dtype_kv, c.dtype, 2, 2, c.head_dim_k, c.head_dim_v, c.page_size);
  return {p, {3, 0, 17, 1}, {3, 5, 40, 33}, c.hnd ? KvLayout::kHND : KvLayout::kNHD, c.strided};
}

PagedKvCache CacheOn(const AttentionInputs& in, DeviceCopies& on) {
  on(in.k_pool);
  on(in.v_pool);
  const PagedKvCache cache = in.cache();
  return {on(cache.k), on(cache.v), cache.layout};
}

PageTable PagesOn(const AttentionInputs& in, DeviceCopies& on) {
  const PageTable pages = in.pages();
  return {on(pages.indptr), on(pages.indices), pages.last_page_len};
}

/// Sets (request, position, head, element) of both pools of `expected` from the rows.
void WriteSlots(const PageCopyCase& c, const PageCopyTokens& tokens, AttentionInputs& expected) {
  for (int64_t i = 0; i < tokens.size(); ++i) {
    const int32_t b = tokens.requests[static_cast<size_t>(i)];
    const int32_t at = tokens.positions[static_cast<size_t>(i)];
    if (b < 0) continue;
    for (int64_t g = 0; g < 2; ++g) {
      for (int64_t d = 0; d < c.head_dim_k; ++d) {
        expected.SetKey(b, at, g, d, tokens.k.At({i, g, d}) * (1 / c.k_scale));
      }
      for (int64_t d = 0; d < c.head_dim_v; ++d) {
        expected.SetValue(b, at, g, d, tokens.v.At({i, g, d}) * (1 / c.v_scale));
      }
    }
  }
}

}  // namespace

void CheckPageAppend(const PageCopyCase& c, CaseRun& run) {
  const AttentionCase a = AttentionOfCopy(c);
  run.ForEachCandidate<PageAppendOp>({c.dtype, c.dtype_kv}, c, [&](Trial& trial) {
    DeviceCopies on(trial.device());
    std::mt19937_64 rng(41);
    const AttentionInputs in(a, 42);
    AttentionInputs expected(a, 42);
    PageCopyTokens tokens(a, c.strided);
    tokens.k.FillNormal(rng);
    tokens.v.FillNormal(rng);
    WriteSlots(c, tokens, expected);
    AppendPagedKvCache(on(tokens.k), on(tokens.v), on(tokens.batch_indices()),
                       on(tokens.position_view()), CacheOn(in, on), PagesOn(in, on),
                       {c.k_scale, c.v_scale, trial.backend()});
    on.Fetch();
    trial.ExpectSameBytes("k_pool", in.k_pool, expected.k_pool);
    trial.ExpectSameBytes("v_pool", in.v_pool, expected.v_pool);
  });
}

void CheckPageGather(const PageCopyCase& c, CaseRun& run) {
  const AttentionCase a = AttentionOfCopy(c);
  run.ForEachCandidate<PageGatherOp>({c.dtype, c.dtype_kv}, c, [&](Trial& trial) {
    DeviceCopies on(trial.device());
    const AttentionInputs in(a, 43);
    const PageCopyTokens tokens(a, c.strided);
    PageCopyTokens expected(a, c.strided);
    for (int64_t i = 0; i < tokens.size(); ++i) {
      const int32_t b = tokens.requests[static_cast<size_t>(i)];
      const int32_t at = tokens.positions[static_cast<size_t>(i)];
      if (b < 0) continue;
      for (int64_t g = 0; g < 2; ++g) {
        for (int64_t d = 0; d < c.head_dim_k; ++d) {
          expected.k.Set({i, g, d}, in.Key(b, at, g, d) * c.k_scale);
        }
        for (int64_t d = 0; d < c.head_dim_v; ++d) {
          expected.v.Set({i, g, d}, in.Value(b, at, g, d) * c.v_scale);
        }
      }
    }
    GatherPagedKvCache(CacheOn(in, on), PagesOn(in, on), on(tokens.batch_indices()),
                       on(tokens.position_view()), on(tokens.k), on(tokens.v),
                       {c.k_scale, c.v_scale, trial.backend()});
    on.Fetch();
    trial.ExpectSameBytes("k", tokens.k, expected.k);
    trial.ExpectSameBytes("v", tokens.v, expected.v);
  });
}

}  // namespace flashinfer::test
