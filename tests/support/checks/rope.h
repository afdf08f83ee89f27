// SPDX-License-Identifier: Apache-2.0
// RoPE on every candidate, against a float64 loop.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "support/case_run.h"
#include "support/cases/rope.h"

namespace flashinfer::test {

struct SinCos {
  double sin;
  double cos;
};

/// What a case's test gives to every candidate.
struct RopeInputs {
  RopeInputs(const RopeCase& c, std::mt19937_64& rng);
  SinCos AngleOf(const RopeCase& c, int64_t token, int64_t pair) const;

  HostTensor pos_ids;
  HostTensor indptr{DType::kI32, {4}};
  HostTensor offsets{DType::kI32, {3}};
  HostTensor factors;
  HostTensor cache;
  std::vector<int64_t> positions;  // of the tokens
};

/// Values of heads [num_tokens, num_heads, head_dim], rotated.
std::vector<double> RopeOracle(std::vector<double> x, int64_t num_heads, const RopeCase& c,
                               const RopeInputs& in);
/// Scaled and clamped to what the 8-bit float holds.
std::vector<double> Scaled(std::vector<double> x, double scale, DType dtype_out);

void CheckRope(const RopeCase& c, CaseRun& run);

}  // namespace flashinfer::test
