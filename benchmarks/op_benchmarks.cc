// SPDX-License-Identifier: Apache-2.0
// The list of what can be measured.
#include "op_benchmarks.h"

namespace flashinfer::bench {

std::vector<OpBenchmark> OpBenchmarks() {
  return {ActivationBenchmark(),
          ChainSpeculativeBenchmark(),
          BatchDecodeBenchmark(),
          DecodePlanBenchmark(),
          GemmBenchmark(),
          GroupedGemmBenchmark(),
          LinearBenchmark(),
          MergeStatesBenchmark(),
          MlaBenchmark(),
          NormBenchmark(),
          PackBitsBenchmark(),
          PageAppendBenchmark(),
          BatchPrefillBenchmark(),
          QuantizeBenchmark(),
          QuantizeBlocksBenchmark(),
          RopeBenchmark(),
          SamplingBenchmark(),
          SegmentGemmBenchmark(),
          SwizzleScalesBenchmark(),
          TokenFilterBenchmark(),
          TopKBenchmark()};
}

}  // namespace flashinfer::bench
