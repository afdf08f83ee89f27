// SPDX-License-Identifier: Apache-2.0
// Outputs that share memory with inputs: refused by every operator unless it works in place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "flashinfer/flashinfer.h"
#include "support/host_tensor.h"

namespace flashinfer::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Memory that tensors of a test lie in, as far from each other as it says.
class SharedMemory : public ::testing::Test {
 protected:
  static constexpr int64_t kRows = 4;
  static constexpr int64_t kCols = 64;

  SharedMemory() { memory_.Fill(0.5); }

  TensorView At(int64_t float_offset, DType dtype, Dims shape) {
    return {memory_.view().data_as<float>() + float_offset, dtype, shape};
  }
  TensorView Rows(int64_t float_offset) { return At(float_offset, DType::kF32, {kRows, kCols}); }
  TensorView Heads(int64_t float_offset) { return At(float_offset, DType::kF32, {kRows, 2, 32}); }

  /// `call` throws and leaves the memory as it was.
  void ExpectRefused(const std::function<void()>& call, const std::string& message) {
    const std::vector<double> before = memory_.Values();
    EXPECT_THAT(call, ThrowsMessage<Error>(HasSubstr(message)));
    EXPECT_EQ(memory_.Values(), before);
  }

  HostTensor memory_{DType::kF32, {4096}};
  HostTensor other_ = std::move(HostTensor(DType::kF32, {kRows, kCols}).Fill(1));
  HostTensor weight_ = std::move(HostTensor(DType::kF32, {kCols}).Fill(1));
};

TEST_F(SharedMemory, Norms) {
  ExpectRefused([&] { RmsNorm(Rows(0), weight_, Rows(16)); },
                "out: shares memory with x, expected memory of its own or the whole of x");
  ExpectRefused([&] { RmsNorm(Rows(64), At(40, DType::kF32, {kCols}), Rows(64)); },
                "out: shares memory with weight, expected memory of its own");
  ExpectRefused(
      [&] {
        RmsNorm(Rows(0), weight_, At(0, DType::kE4M3, {kRows, kCols}));
      },
      "out: shares memory with x");
  ExpectRefused([&] { FusedAddRmsNorm(Rows(0), Rows(63), weight_, Rows(1024)); },
                "residual: shares memory with x");
  RmsNorm(Rows(0), weight_, Rows(0));
  RmsNorm(Rows(0), weight_, Rows(kRows * kCols));
}

TEST_F(SharedMemory, Activations) {
  const TensorView half(memory_.view().data(), DType::kF32, {kRows, kCols / 2}, {kCols, 1});
  const TensorView shifted(At(16, DType::kF32, {1}).data(), DType::kF32, {kRows, kCols / 2},
                           {kCols, 1});
  ExpectRefused(
      [&] {
        SiluAndMul(Rows(0), At(0, DType::kF32, {kRows, kCols / 2}));
      },
      "out: shares memory with x");
  ExpectRefused([&] { SiluAndMul(Rows(0), shifted); }, "out: shares memory with x");
  SiluAndMul(Rows(0), half);
  const double x = 0.5;
  EXPECT_NEAR(memory_.At({kCols}), x / (1 + std::exp(-x)) * x, 1e-6);
  EXPECT_EQ(memory_.At({kCols + kCols / 2}), x);
}

TEST_F(SharedMemory, Rope) {
  HostTensor positions(DType::kI32, {kRows});
  positions.Fill(3);
  ExpectRefused([&] { ApplyRope(Heads(0), Heads(1024), positions, Heads(32), Heads(1024)); },
                "q_out: shares memory with q");
  ExpectRefused([&] { ApplyRope(Heads(0), Heads(1024), positions, Heads(1024), Heads(2048)); },
                "q_out: shares memory with k");
  ExpectRefused([&] { ApplyRope(Heads(0), Heads(1024), positions, Heads(2048), Heads(2048)); },
                "q_out: shares memory with k_out");
  ApplyRope(Heads(0), Heads(1024), positions, Heads(0), Heads(1024));
}

TEST_F(SharedMemory, Products) {
  const TensorView square = At(0, DType::kF32, {kCols, kCols});
  HostTensor out(DType::kF32, {kRows, kCols});
  ExpectRefused(
      [&] {
        Gemm(Rows(0), Rows(1024), At(0, DType::kF32, {kRows, kRows}));
      },
      "out: shares memory with a");
  ExpectRefused([&] { Gemm(other_, square, Rows(0)); }, "out: shares memory with b");
  const TensorView weights = At(0, DType::kF32, {1, kCols, kCols});
  HostTensor indptr(DType::kI32, {2});
  indptr.FillWith({0, kRows});
  ExpectRefused([&] { SegmentGemm(other_, weights, indptr, Rows(64)); },
                "out: shares memory with weights");
  const PackedWeight packed(WeightView{square.data(), WeightFormat::kF32, kCols, kCols});
  ExpectRefused([&] { Linear(Rows(0), packed, Rows(0)); }, "out: shares memory with x");
  ExpectRefused([&] { Linear(other_, packed, Rows(0), {.residual = Rows(8)}); },
                "out: shares memory with residual");
  Linear(other_, packed, Rows(0), {.residual = Rows(0)});
}

TEST_F(SharedMemory, Quantisation) {
  const TensorView q = At(32, DType::kE4M3, {kRows, kCols});
  const TensorView scales = At(2048, DType::kF32, {kRows, 1});
  ExpectRefused([&] { Quantize(Rows(0), q, scales); }, "q: shares memory with x");
  ExpectRefused([&] { Quantize(Rows(2000), q, scales); }, "scales: shares memory with x");
  ExpectRefused([&] { Dequantize(q, scales, Rows(0)); }, "out: shares memory with q");
  const TensorView blocks = At(2048, DType::kE8M0, {kRows * 2});
  const QuantizeBlocksOptions linear{.scale_layout = ScaleLayout::kLinear};
  ExpectRefused([&] { QuantizeBlocks(Rows(0), q, blocks, linear); }, "q: shares memory with x");
  ExpectRefused([&] { DequantizeBlocks(q, blocks, Rows(0), linear); }, "out: shares memory with q");
  ExpectRefused(
      [&] {
        SwizzleBlockScales(At(0, DType::kE8M0, {128, 4}), At(8, DType::kE8M0, {512}));
      },
      "swizzled: shares memory with linear");
  ExpectRefused([&] { PackBits(At(0, DType::kU8, {64}), At(2, DType::kU8, {8})); },
                "packed: shares memory with x");
}

TEST_F(SharedMemory, Vocabularies) {
  ExpectRefused([&] { Softmax(Rows(0), Rows(64)); }, "probs: shares memory with logits");
  ExpectRefused([&] { TopPRenormProbs(Rows(0), Rows(64), 0.5f); }, "out: shares memory with probs");
  ExpectRefused([&] { TopKMaskLogits(Rows(0), Rows(1), 3); }, "out: shares memory with logits");
  ExpectRefused([&] { SampleFromLogits(Rows(0), At(60, DType::kI32, {kRows})); },
                "tokens: shares memory with logits");
  const TensorView indices = At(32, DType::kI32, {kRows, 4});
  ExpectRefused([&] { TopK(Rows(0), TensorView(), indices); }, "indices: shares memory with input");
  ExpectRefused(
      [&] {
        TopK(other_, At(40, DType::kF32, {kRows, 4}), indices);
      },
      "values: shares memory with indices");
  Softmax(Rows(0), Rows(0));
  TopPRenormProbs(Rows(0), Rows(0), 0.5f);
}

TEST_F(SharedMemory, Attention) {
  const AttentionProblem problem{.dtype_q = DType::kF32,
                                 .dtype_kv = DType::kF32,
                                 .dtype_out = DType::kF32,
                                 .num_qo_heads = 2,
                                 .num_kv_heads = 2,
                                 .head_dim_qk = 32,
                                 .head_dim_vo = 32};
  Workspace workspace;
  const auto run = [&](const TensorView& out) {
    SinglePrefill(problem, {.q = Heads(0), .kv = {Heads(1024), Heads(2048)}, .out = out},
                  workspace);
  };
  ExpectRefused([&] { run(Heads(32)); }, "out: shares memory with q");
  ExpectRefused([&] { run(Heads(1000)); }, "out: shares memory with k");
  ExpectRefused([&] { run(Heads(2048)); }, "out: shares memory with v");
  run(Heads(0));
  const TensorView s = At(3000, DType::kF32, {kRows, 2});
  ExpectRefused([&] { MergeState(Heads(0), s, Heads(1024), s, Heads(1056), s); },
                "v_merged: shares memory with v_b");
  ExpectRefused([&] { MergeStateInPlace(Heads(0), s, Heads(64), s); },
                "v: shares memory with v_other");
  ExpectRefused(
      [&] {
        MergeStates(At(0, DType::kF32, {kRows, 2, 2, 32}), At(3000, DType::kF32, {kRows, 2, 2}),
                    Heads(0), At(3500, DType::kF32, {kRows, 2}));
      },
      "v_merged: shares memory with v");
  MergeStates(At(0, DType::kF32, {1, 2, 2, 32}), At(3000, DType::kF32, {1, 2, 2}),
              At(64, DType::kF32, {1, 2, 32}), At(3002, DType::kF32, {1, 2}));
  MergeState(Heads(0), s, Heads(1024), s, Heads(1024), s);
}

}  // namespace
}  // namespace flashinfer::test
