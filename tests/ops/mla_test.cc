// SPDX-License-Identifier: Apache-2.0
// Latent attention: every candidate over the shared cases, and what once went wrong elsewhere.
#include "ops/mla.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/fields.h"
#include "kernels/attention/mla_spec.h"
#include "support/candidates.h"
#include "support/cases/mla.h"
#include "support/checks/mla.h"
#include "support/compare.h"
#include "support/page_tables.h"

namespace flashinfer::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr double kInf = std::numeric_limits<double>::infinity();

class MlaCaseTest : public ::testing::TestWithParam<MlaCase> {};

TEST_P(MlaCaseTest, EveryCandidateMatchesTheOracle) { ExpectCaseHolds(CheckMla, GetParam()); }

INSTANTIATE_TEST_SUITE_P(Shared, MlaCaseTest, ::testing::ValuesIn(MlaCases()));

MlaCase OneToken(DType dtype, int32_t kv_len) {
  return {MlaOf(dtype, dtype, dtype, 16, 128, 64, 16), {1}, {kv_len}};
}

TEST(Mla, LseIsBase2) {
  const MlaCase c = OneToken(DType::kF16, 4);
  MlaInputs in(c, 82);
  in.q_nope.Fill(0);
  in.q_pe.Fill(0);
  Workspace workspace;
  RunMla(c, in, workspace);
  for (double x : in.lse.Values()) EXPECT_EQ(x, 2.0);
}

TEST(Mla, VeryNegativeFiniteLogits) {
  MlaCase c = OneToken(DType::kBF16, 1);
  c.problem.sm_scale = 1 / std::sqrt(128.0f);
  MlaInputs in(c, 83);
  in.q_nope.Fill(64);
  in.q_pe.Fill(0);
  for (int64_t d = 0; d < 128; ++d) in.SetStored(0, 0, d, -64);
  Workspace workspace;
  RunMla(c, in, workspace);
  for (double x : in.out.Values()) EXPECT_EQ(x, -64.0);
  for (double x : in.lse.Values()) EXPECT_NEAR(x, -66855.859, 0.05);
}

TEST(Mla, PaddedRowsOfZeroLengthStayZero) {
  for (DType kv : {DType::kBF16, DType::kE4M3}) {
    const MlaProblem p = MlaOf(DType::kBF16, kv, DType::kBF16, 16, 512, 64, 64);
    const MlaCase live{p, {1, 1, 1, 1, 1}, {5, 70, 300, 16, 1}};
    MlaCase padded = live;
    padded.q_len.resize(8, 1);
    padded.kv_len.resize(8, 0);
    MlaInputs in(padded, 84);
    for (int64_t b = 5; b < 8; ++b) {
      for (int64_t h = 0; h < 16; ++h) {
        for (int64_t d = 0; d < 512; ++d) in.q_nope.Set({b, h, d}, std::nan(""));
      }
    }
    Workspace workspace;
    RunMla(padded, in, workspace);
    const std::vector<double> out = in.out.Values();
    const std::vector<double> lse = in.lse.Values();
    // The five live requests alone, on the same pages: the same bits.
    MlaInputs alone(live, 84);
    alone.indices = in.indices;
    BatchMla mla(workspace);
    mla.Plan(p, alone.qo_indptr_view(), alone.pages());
    mla.Run(in.q_nope.view().Slice(0, 5), in.q_pe.view().Slice(0, 5), in.cache(), alone.out,
            alone.lse);
    EXPECT_TRUE(AllNear(alone.out, MlaOracle(live, in).out, ToleranceOf(DType::kBF16)));
    std::vector<double> expected = alone.out.Values();
    expected.resize(out.size(), 0.0);
    EXPECT_EQ(out, expected);
    expected = alone.lse.Values();
    expected.resize(lse.size(), -kInf);
    EXPECT_EQ(lse, expected);
  }
}

TEST(Mla, PagesDoNotChangeAResult) {
  // The same tokens on other pages: the same bits. Two requests on the same pages: likewise.
  const MlaCase c{
      MlaOf(DType::kBF16, DType::kBF16, DType::kF32, 16, 128, 64, 16), {1, 1}, {300, 300}};
  MlaInputs in(c, 85);
  for (int64_t t = 0; t < 300; ++t) {
    for (int64_t d = 0; d < 192; ++d) in.SetStored(1, t, d, in.Stored(0, t, d));
  }
  for (int64_t h = 0; h < 16; ++h) {
    for (int64_t d = 0; d < 128; ++d) in.q_nope.Set({1, h, d}, in.q_nope.At({0, h, d}));
    for (int64_t d = 0; d < 64; ++d) in.q_pe.Set({1, h, d}, in.q_pe.At({0, h, d}));
  }
  Workspace workspace;
  RunMla(c, in, workspace);
  const std::vector<double> out = in.out.Values();
  const auto half = static_cast<std::ptrdiff_t>(out.size() / 2);
  const std::vector<double> first(out.begin(), out.begin() + half);
  EXPECT_EQ(first, std::vector<double>(out.begin() + half, out.end()));
  std::copy_n(in.indices.begin(), in.indptr[1], in.indices.begin() + in.indptr[1]);
  RunMla(c, in, workspace);
  EXPECT_EQ(out, in.out.Values());
}

TEST(Mla, KeysThatNobodySeesMayHoldAnything) {
  for (DType t : {DType::kF32, DType::kBF16}) {
    // More tokens in the pages than kv_len, and keys behind what the first queries see.
    MlaCase c{MlaOf(t, t, t, 5, 64, 16, 16), {40}, {100}};
    c.problem.causal = true;
    MlaInputs in(c, 86);
    const MlaResult expected = MlaOracle(c, in);
    for (int64_t d = 0; d < 80; ++d) in.SetStored(0, 99, d, d % 2 == 0 ? std::nan("") : kInf);
    for (const std::string& candidate : AcceptingCandidates<MlaOp>(c.problem)) {
      Workspace workspace;
      RunMla(c, in, workspace, candidate);
      const std::vector<double> out = in.out.Values();
      for (size_t i = 0; i < out.size() / 40 * 39; ++i) {
        ASSERT_TRUE(Near(out[i], expected.out[i], ToleranceOf(t, 512))) << candidate << " " << i;
      }
      EXPECT_TRUE(std::isnan(out.back()));
    }
  }
}

TEST(Mla, FixedSplitsMakeARequestIndependentOfTheBatch) {
  MlaProblem p = MlaOf(DType::kBF16, DType::kBF16, DType::kF32, 16, 64, 16, 16);
  p.causal = true;
  for (int32_t split : {64, 256}) {
    p.fixed_split_size = split;
    for (const std::string& candidate : AcceptingCandidates<MlaOp>(p)) {
      std::vector<double> alone;
      const MlaInputs same({p, {1}, {2501}}, 87);
      // Alone; among short requests; before a long one; as the last token of a longer chunk.
      for (const auto& [q_len, others] : {std::pair<int32_t, std::vector<int32_t>>{1, {}},
                                          {1, std::vector<int32_t>(40, 9)},
                                          {1, {9000}},
                                          {20, {}}}) {
        MlaCase c{p, {q_len}, {2501}};
        c.q_len.resize(others.size() + 1, 1);
        c.kv_len.insert(c.kv_len.end(), others.begin(), others.end());
        MlaInputs in(c, 88);
        for (int64_t t = 0; t < 2501; ++t) {
          for (int64_t d = 0; d < 80; ++d) in.SetStored(0, t, d, same.Stored(0, t, d));
        }
        const int64_t row = q_len - 1;
        for (int64_t h = 0; h < 16; ++h) {
          for (int64_t d = 0; d < 64; ++d) in.q_nope.Set({row, h, d}, same.q_nope.At({0, h, d}));
          for (int64_t d = 0; d < 16; ++d) in.q_pe.Set({row, h, d}, same.q_pe.At({0, h, d}));
        }
        Workspace workspace;
        RunMla(c, in, workspace, candidate);
        std::vector<double> result;
        for (int64_t h = 0; h < 16; ++h) {
          result.push_back(in.lse.At({row, h}));
          for (int64_t d = 0; d < 64; ++d) result.push_back(in.out.At({row, h, d}));
        }
        if (alone.empty()) alone = result;
        EXPECT_EQ(result, alone) << candidate << " split " << split << " q_len " << q_len;
      }
    }
  }
}

TEST(Mla, ManyRequests) {
  constexpr int64_t kRequests = 65537;
  MlaProblem p = MlaOf(DType::kF16, DType::kF16, DType::kF16, 1, 16, 8, 1);
  const std::vector<int32_t> ones(kRequests, 1);
  const std::vector<int32_t> indptr = Indptr(ones);
  const std::vector<int32_t> indices(indptr.begin(), indptr.end() - 1);
  HostTensor q(DType::kF16, {kRequests, 1, 16});
  HostTensor q_pe(DType::kF16, {kRequests, 1, 8});
  HostTensor out(DType::kF16, {kRequests, 1, 16});
  HostTensor ckv(DType::kF16, {kRequests, 1, 16});
  HostTensor kpe(DType::kF16, {kRequests, 1, 8});
  q.Fill(1);
  q_pe.Fill(1);
  kpe.Fill(1);
  for (int64_t b = 0; b < kRequests; ++b) {
    for (int64_t d = 0; d < 16; ++d) ckv.Set({b, 0, d}, static_cast<double>(b % 1024));
  }
  Workspace workspace;
  BatchMla mla(workspace);
  mla.Plan(p, ViewOf(indptr), {ViewOf(indptr), ViewOf(indices), ViewOf(ones)});
  mla.Run(q, q_pe, {ckv, kpe}, out);
  for (int64_t b = 0; b < kRequests; ++b) {
    ASSERT_EQ(out.At({b, 0, 15}), static_cast<double>(b % 1024)) << b;
  }
}

TEST(Mla, ASmallWorkspaceMeansFewerSplitsAndTheSameAnswer) {
  const MlaCase c{MlaOf(DType::kF32, DType::kF16, DType::kF32, 9, 64, 16, 16), {1}, {4000}};
  const MlaInputs in(c, 89);
  const MlaResult expected = MlaOracle(c, in);
  const size_t full = BatchMla::WorkspaceBytes(c.problem, 1, 1);
  bool was_refused = false;
  for (size_t bytes : {full, full / 4 * 3, full / 2, full / 4, size_t{64}}) {
    std::vector<char> memory(bytes + 64);
    char* aligned = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
    Workspace workspace = Workspace::Borrow(aligned, bytes);
    try {
      RunMla(c, in, workspace);
      EXPECT_TRUE(AllNear(in.out, expected.out, ToleranceOf(DType::kF32, 512)));
    } catch (const Error& error) {
      was_refused = true;
      EXPECT_THAT(error.what(), HasSubstr("bytes are needed"));
      EXPECT_LT(bytes, full);
    }
  }
  EXPECT_TRUE(was_refused);  // 64 bytes do not even hold one thread's tile
}

TEST(Mla, TilesFitAndStayThoseOfThePlan) {
  for (int32_t smem_kb : {64, 99, 163, 227}) {
    for (DType kv : {DType::kF16, DType::kE4M3}) {
      for (int64_t rows : {1, 16, 17, 32, 33, 128, 2048}) {
        for (int64_t requests : {0, 1, 2, 16, 17, 300}) {
          const kernels::MlaSpec spec = kernels::MakeMlaSpec({.dtype_q = DType::kF16,
                                                              .dtype_kv = kv,
                                                              .dtype_out = DType::kF16,
                                                              .head_dim_ckv = 512,
                                                              .head_dim_kpe = 64,
                                                              .batch = {rows, requests},
                                                              .smem_bytes = smem_kb << 10,
                                                              .soft_cap = false});
          EXPECT_LE(SmemBytes(spec), smem_kb << 10) << FieldsText("", spec);
          if (kv != DType::kE4M3) continue;
          const kernels::MlaSpec scaled = WithScales(spec, 16);
          EXPECT_LE(SmemBytes(scaled), smem_kb << 10) << FieldsText("", scaled);
          EXPECT_EQ(MlaRows(scaled), MlaRows(spec));
          EXPECT_EQ(scaled.kv_tile, spec.kv_tile);
        }
      }
    }
  }
}

TEST(Mla, ErrorsNameArgumentValueAndWhatIsAccepted) {
  const MlaCase c = OneToken(DType::kBF16, 20);
  MlaInputs in(c, 90);
  Workspace workspace;
  BatchMla mla(workspace);
  EXPECT_THAT([&] { mla.Run(in.q_nope, in.q_pe, in.cache(), in.out); },
              ThrowsMessage<Error>(HasSubstr("before a successful Plan()")));
  const auto plan = [&](auto change) {
    return [&, change] {
      MlaProblem p = c.problem;
      change(p);
      mla.Plan(p, in.qo_indptr_view(), in.pages());
    };
  };
  EXPECT_THAT(plan([](auto& p) { p.head_dim_ckv = 63; }),
              ThrowsMessage<Error>("head_dim_ckv: is 63, accepted: multiples of 8 up to 512"));
  EXPECT_THAT(plan([](auto& p) { p.head_dim_kpe = 4; }),
              ThrowsMessage<Error>("head_dim_kpe: is 4, accepted: 0 and multiples of 8 up to 512"));
  EXPECT_THAT(plan([](auto& p) { p.sm_scale = 0; }),
              ThrowsMessage<Error>("sm_scale: is 0, expected a finite number other than 0"));
  EXPECT_THAT(plan([](auto& p) { p.dtype_kv = DType::kI32; }),
              ThrowsMessage<Error>(HasSubstr("dtype_kv must be f32, f16, bf16")));
  in.kv_len[0] = 33;
  EXPECT_THAT(plan([](auto&) {}), ThrowsMessage<Error>("kv_len[0]: is 33, its pages hold 0 to 32 "
                                                       "tokens"));
  in.kv_len[0] = 20;
  mla.Plan(c.problem, in.qo_indptr_view(), in.pages());
  const auto run = [&](auto change) {
    return [&, change] {
      MlaCache cache = in.cache();
      change(cache);
      mla.Run(in.q_nope, in.q_pe, cache, in.out);
    };
  };
  EXPECT_THAT(run([](auto& cache) { cache.ckv_scale = 2; }),
              ThrowsMessage<Error>("ckv_scale: is 2, accepted with a cache of bf16: 1"));
  EXPECT_THAT(run([](auto& cache) { cache.kpe = TensorView(); }),
              ThrowsMessage<Error>(HasSubstr("cache.kpe")));
  EXPECT_THAT([&] { mla.Run(in.q_pe, in.q_pe, in.cache(), in.out); },
              ThrowsMessage<Error>("q_nope: shape is [1, 16, 64], expected [1, 16, 128]"));
  in.indices[1] = 1000000;
  EXPECT_THAT(run([](auto&) {}),
              ThrowsMessage<Error>(HasSubstr("indices[1]: is 1000000, the cache has pages 0 to")));
  for (double x : in.out.Values()) EXPECT_TRUE(std::isnan(x));
}

}  // namespace
}  // namespace flashinfer::test
