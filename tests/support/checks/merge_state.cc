// SPDX-License-Identifier: Apache-2.0
// Two attention states against float64.
#include "support/checks/merge_state.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/merge_state.h"
#include "support/mismatch.h"

namespace flashinfer::test {

constexpr double kInf = std::numeric_limits<double>::infinity();

void CheckMergeState(const MergeStateCase& c, CaseRun& run) {
  run.ForEachCandidate<MergeStateOp>({c.dtype}, c, [&](Trial& trial) {
    DeviceCopies on(trial.device());
    std::mt19937_64 rng(51);
    State a(c.dtype, 9, 3, c.head_dim);
    State b(c.dtype, 9, 3, c.head_dim);
    State merged(c.dtype, 9, 3, c.head_dim);
    for (State* state : {&a, &b}) {
      state->v.FillNormal(rng);
      state->s.FillNormal(rng, 4);
    }
    // Empty states are neutral, whatever their values are.
    a.s.Set({0, 0}, -kInf);
    a.v.Set({0, 0, 1}, std::nan(""));
    b.s.Set({1, 1}, -kInf);
    b.v.Set({1, 1, 1}, kInf);
    a.s.Set({2, 2}, -kInf);
    b.s.Set({2, 2}, -kInf);
    a.s.Set({3, 0}, -66855);
    b.s.Set({3, 0}, -66850);
    MergeState(on(a.v), on(a.s), on(b.v), on(b.s), on(merged.v), on(merged.s), trial.backend());
    on.Fetch();
    for (int64_t t = 0; t < 9; ++t) {
      for (int64_t h = 0; h < 3; ++h) {
        const double s_a = a.s.At({t, h});
        const double s_b = b.s.At({t, h});
        const double max = std::max(s_a, s_b);
        const double w_a = s_a == -kInf ? 0 : std::exp2(s_a - max);
        const double w_b = s_b == -kInf ? 0 : std::exp2(s_b - max);
        const double lse = max == -kInf ? -kInf : max + std::log2(w_a + w_b);
        trial.ExpectNear("s", {t, h}, merged.s.At({t, h}), lse, LseTolerance());
        for (int64_t d = 0; d < c.head_dim; ++d) {
          double v = 0;
          if (w_a > 0) v += w_a * a.v.At({t, h, d});
          if (w_b > 0) v += w_b * b.v.At({t, h, d});
          if (max != -kInf) v /= w_a + w_b;
          trial.ExpectNear("v", {t, h, d}, merged.v.At({t, h, d}), v, ToleranceOf(c.dtype));
        }
      }
    }
    trial.ExpectTrue("padding of v is untouched", PaddingIsUntouched(merged.v));
    MergeState(on(a.v), on(a.s), on(b.v), on(b.s), on(a.v), on(a.s), trial.backend());
    on.Fetch();
    trial.ExpectSameBytes("v in place", a.v, merged.v);
  });
}

}  // namespace flashinfer::test
