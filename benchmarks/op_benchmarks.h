// SPDX-License-Identifier: Apache-2.0
// What can be measured on the CPU: an operator, its cases, and how one is run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cuda/device.h"
#include "dispatch/choose.h"
#include "flashinfer/error.h"
#include "harness.h"

namespace flashinfer::bench {

struct OpBenchmark {
  std::string_view op;
  std::vector<std::string> cases;  ///< field=value words
  void (*run)(Harness& harness, const std::string& text);
};

// Each in the file of its operator.
OpBenchmark ActivationBenchmark();
OpBenchmark ChainSpeculativeBenchmark();
OpBenchmark BatchDecodeBenchmark();
OpBenchmark DecodePlanBenchmark();
OpBenchmark GemmBenchmark();
OpBenchmark GroupedGemmBenchmark();
OpBenchmark LinearBenchmark();
OpBenchmark MergeStatesBenchmark();
OpBenchmark MlaBenchmark();
OpBenchmark NormBenchmark();
OpBenchmark PackBitsBenchmark();
OpBenchmark PageAppendBenchmark();
OpBenchmark BatchPrefillBenchmark();
OpBenchmark QuantizeBenchmark();
OpBenchmark QuantizeBlocksBenchmark();
OpBenchmark RopeBenchmark();
OpBenchmark SamplingBenchmark();
OpBenchmark SegmentGemmBenchmark();
OpBenchmark SwizzleScalesBenchmark();
OpBenchmark TokenFilterBenchmark();
OpBenchmark TopKBenchmark();

/// All of them.
std::vector<OpBenchmark> OpBenchmarks();

/// The candidate that runs a problem there; throws kUnsupported when none does.
template <class Op>
std::string ChosenCandidate(const Harness& harness, typename Op::Problem problem) {
  if constexpr (requires { problem.arch; }) {
    problem.arch = cuda::ArchOf(harness.device());
  } else if (harness.device().type != DeviceType::kCpu) {
    throw Error(ErrorKind::kUnsupported, "no candidate runs on CUDA devices");
  }
  const Explanation explanation = ExplainOp<Op>(problem, EffectiveBackend(Backend()));
  if (explanation.chosen() == nullptr) ThrowNoCandidate(explanation);
  return explanation.chosen()->candidate;
}

}  // namespace flashinfer::bench
