// SPDX-License-Identifier: Apache-2.0
// Explanations by text form, and the support matrix made from the same table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "flashinfer/backend.h"
#include "flashinfer/error.h"
#include "flashinfer/norm.h"
#include "ops/op_table.h"

namespace flashinfer {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Explain, ListsEveryCandidateWithItsReason) {
  const Explanation explanation = Explain("norm dtype=i32 hidden_size=64");
  EXPECT_THAT(explanation.problem, HasSubstr("dtype=i32"));
  ASSERT_EQ(explanation.verdicts.size(), 5u);
  EXPECT_EQ(explanation.chosen(), nullptr);
  for (const Verdict& verdict : explanation.verdicts) {
    EXPECT_EQ(verdict.reason, verdict.candidate == "cuda.simt" ? "tensors are in host memory"
                                                               : "dtype must be f32, f16 or bf16")
        << verdict.candidate;
  }
  EXPECT_THAT(Text(explanation), HasSubstr("cpu.scalar       dtype must be f32, f16 or bf16"));
}

TEST(Explain, TheScalarPathRunsEverywhere) {
  const Explanation explanation = Explain("norm");
  ASSERT_NE(explanation.chosen(), nullptr);
  EXPECT_EQ(explanation.verdicts.back().candidate, "cpu.scalar");
  EXPECT_TRUE(explanation.verdicts.back().accepted);
}

TEST(ChosenBackends, NamesTheOperatorsThatRan) {
  float x[2] = {3, 4}, weight[2] = {1, 1}, out[2];
  RmsNorm(TensorView(x, DType::kF32, {1, 2}), TensorView(weight, DType::kF32, {2}),
          TensorView(out, DType::kF32, {1, 2}), {.backend = Backend("cpu.scalar")});
  const std::vector<OpBackends> chosen = ChosenBackends();
  ASSERT_EQ(chosen.size(), 1u);
  EXPECT_EQ(chosen[0].op, "norm");
  EXPECT_EQ(chosen[0].candidates, std::vector<std::string>{"cpu.scalar"});
}

TEST(Explain, ErrorsListWhatIsAccepted) {
  EXPECT_THAT([] { Explain("no_such_op"); }, ThrowsMessage<Error>(HasSubstr("operators: ")));
  EXPECT_THAT([] { Explain("norm width=3"); },
              ThrowsMessage<Error>(HasSubstr("fields: kind, adds_residual, dtype, dtype_weight")));
  EXPECT_THAT([] { Explain("norm hidden_size=x"); },
              ThrowsMessage<Error>("hidden_size: 'x' is not a 64-bit integer"));
  EXPECT_THAT([] { Explain("norm hidden_size=0"); },
              ThrowsMessage<Error>("hidden_size: is 0, expected 1 or more"));
  EXPECT_THAT([] { Explain("batch_prefill window_left=-2"); },
              ThrowsMessage<Error>("window_left: is -2, expected -1 or more"));
  EXPECT_THAT([] { Explain("batch_decode num_qo_heads=33"); },
              ThrowsMessage<Error>(HasSubstr("expected a multiple of num_kv_heads")));
  EXPECT_THAT([] { Explain("norm arch=77"); },
              ThrowsMessage<Error>(HasSubstr("arch: is 77, accepted: 0, 75, 80")));
  EXPECT_THAT([] { Explain("norm arch=90 arch=80"); },
              ThrowsMessage<Error>("arch: is given twice, 'arch=90' and 'arch=80'"));
}

TEST(SupportMatrix, EveryRowOfEveryOperatorRunsOnTheCpu) {
  for (const OpRow& row : OpTable()) {
    EXPECT_FALSE(row.matrix.empty()) << row.name;
    for (std::string_view fields : row.matrix) {
      const Explanation explanation =
          row.explain(SplitWords(fields), Backend("cpu"), Machine::kAny);
      EXPECT_NE(explanation.chosen(), nullptr) << Text(explanation);
      EXPECT_THAT(SupportMatrix(), HasSubstr(std::string(fields)));
    }
  }
}

TEST(SupportMatrix, SaysWhichArchitecturesHaveAKernelOrWhyNot) {
  const std::string matrix = SupportMatrix();
  EXPECT_THAT(matrix,
              HasSubstr("| `segment_gemm` | `dtype=f32 dtype_out=f32` | all | no kernel |"));
}

}  // namespace
}  // namespace flashinfer
