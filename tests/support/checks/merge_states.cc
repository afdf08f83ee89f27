// SPDX-License-Identifier: Apache-2.0
// Merging many attention states against float64.
#include "support/checks/merge_states.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/mismatch.h"

namespace flashinfer::test {
constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<double> MergeOracle(const MergeStatesInputs& in, const StateRange& r) {
  const int64_t dim = in.v.view().shape(3);
  double max = -kInf;
  for (int64_t k = r.begin; k < r.end; ++k) max = std::max(max, in.s.At({r.token, k, r.head}));
  std::vector<double> merged(static_cast<size_t>(dim) + 1, 0.0);
  merged.back() = -kInf;
  if (max == -kInf) return merged;
  double sum = 0;
  for (int64_t k = r.begin; k < r.end; ++k) {
    const double weight = std::exp2(in.s.At({r.token, k, r.head}) - max);
    if (weight == 0) continue;
    sum += weight;
    for (int64_t d = 0; d < dim; ++d) {
      merged[static_cast<size_t>(d)] += weight * in.v.At({r.token, k, r.head, d});
    }
  }
  for (double& x : merged) x /= sum;
  merged.back() = max + std::log2(sum);
  return merged;
}

void ExpectMergedRow(const HostTensor& v, const HostTensor& s, int64_t token, int64_t head,
                     const std::vector<double>& expected, Trial& trial) {
  const Tolerance tolerance = ToleranceOf(v.view().dtype(), 64);
  for (int64_t d = 0; d < v.view().shape(2); ++d) {
    trial.ExpectNear("v", {token, head, d}, v.At({token, head, d}),
                     expected[static_cast<size_t>(d)], tolerance);
  }
  trial.ExpectNear("s", {token, head}, s.At({token, head}), expected.back(), LseTolerance());
}

void CheckMergeStates(const MergeStatesCase& c, CaseRun& run) {
  run.ForEachCandidate<MergeStatesOp>({c.dtype}, c, [&](Trial& trial) {
    DeviceCopies on(trial.device());
    const MergeStatesInputs in(c);
    const HostTensor v(c.dtype, {c.num_tokens, c.num_heads, c.head_dim},
                       {c.num_heads * c.head_dim + 1, c.head_dim, 1});
    const HostTensor s(DType::kF32, {c.num_tokens, c.num_heads});
    MergeStates(on(in.v), on(in.s), on(v), on(s), trial.backend());
    on.Fetch();
    for (int64_t t = 0; t < c.num_tokens; ++t) {
      for (int64_t h = 0; h < c.num_heads; ++h) {
        ExpectMergedRow(v, s, t, h, MergeOracle(in, {t, h, 0, c.num_states}), trial);
      }
    }
    trial.ExpectTrue("padding of v is untouched", PaddingIsUntouched(v));
    if (c.num_states == 0) return;
    // Into the last state itself: the same values.
    const TensorView& all = in.v;
    const TensorView& scores = in.s;
    const int64_t last = c.num_states - 1;
    const TensorView last_v{all.data_as<char>() + last * all.stride(1) * SizeBytes(c.dtype),
                            c.dtype,
                            {c.num_tokens, c.num_heads, c.head_dim},
                            {all.stride(0), all.stride(2), 1}};
    const TensorView last_s{scores.data_as<float>() + last * scores.stride(1),
                            DType::kF32,
                            {c.num_tokens, c.num_heads},
                            {scores.stride(0), scores.stride(2)}};
    MergeStates(on(in.v), on(in.s), on(last_v), on(last_s), trial.backend());
    on.Fetch();
    for (int64_t t = 0; t < c.num_tokens; ++t) {
      for (int64_t h = 0; h < c.num_heads; ++h) {
        trial.ExpectEqual("s in place", {t, h}, in.s.At({t, last, h}), s.At({t, h}));
        for (int64_t d = 0; d < c.head_dim; ++d) {
          trial.ExpectEqual("v in place", {t, h, d}, in.v.At({t, last, h, d}), v.At({t, h, d}));
        }
      }
    }
  });
}

void CheckVariableLengthMergeStates(const MergeStatesCase& c, CaseRun& run) {
  if (c.num_tokens == 0) return;
  // All states belong to one token of the inputs, which are then shared out among four.
  const MergeStatesCase one{c.dtype, 1, c.num_states, c.num_heads, c.head_dim};
  const int32_t n = static_cast<int32_t>(c.num_states);
  const std::vector<int32_t> indptr{0, n / 2, n / 2, n - n / 3, n};
  run.ForEachCandidate<MergeStatesOp>({c.dtype}, c, [&](Trial& trial) {
    DeviceCopies on(trial.device());
    const MergeStatesInputs in(one);
    const HostTensor v(c.dtype, {4, c.num_heads, c.head_dim});
    const HostTensor s(DType::kF32, {4, c.num_heads});
    VariableLengthMergeStates(on(in.v)[0], on(in.s)[0],
                              on(TensorView(indptr.data(), DType::kI32, {5})), on(v), on(s),
                              trial.backend());
    on.Fetch();
    for (int64_t t = 0; t < 4; ++t) {
      for (int64_t h = 0; h < c.num_heads; ++h) {
        ExpectMergedRow(v, s, t, h,
                        MergeOracle(in, {0, h, indptr[static_cast<size_t>(t)],
                                         indptr[static_cast<size_t>(t) + 1]}),
                        trial);
      }
    }
  });
}

}  // namespace flashinfer::test
