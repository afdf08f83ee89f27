// SPDX-License-Identifier: Apache-2.0
// Single, ragged and paged attention: the same answers, by hand and to the bit.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/batch_decode.h"
#include "ops/batch_prefill.h"
#include "support/attention_compare.h"
#include "support/cases/attention.h"

namespace flashinfer::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// The ways to run one request.
enum class Form : uint8_t { kPaged, kRagged, kSingle, kDecode, kSingleDecode };
constexpr Form kPrefillForms[] = {Form::kPaged, Form::kRagged, Form::kSingle};
constexpr Form kAllForms[] = {Form::kPaged, Form::kRagged, Form::kSingle, Form::kDecode,
                              Form::kSingleDecode};

/// `c`, of one request, as `form` wants it.
AttentionCase As(Form form, AttentionCase c) {
  c.is_ragged = form != Form::kPaged && form != Form::kDecode;
  return c;
}

void RunBy(Form form, const AttentionCase& c, const AttentionInputs& in,
           std::string_view backend = "auto") {
  Workspace workspace;
  if (form == Form::kPaged || form == Form::kRagged) return RunPrefill(c, in, workspace, backend);
  if (form == Form::kDecode) return RunDecode(c, in, workspace, backend);
  SingleAttentionTensors tensors{in.q, in.ragged(), in.out, in.lse, in.mask(), in.extras()};
  if (form == Form::kSingle) return SinglePrefill(c.problem, tensors, workspace, Backend(backend));
  tensors.q = in.q.view()[0];
  tensors.out = in.out.view()[0];
  tensors.lse = in.lse.view()[0];
  SingleDecode(c.problem, tensors, workspace, Backend(backend));
}

AttentionCase OneRequest(DType dtype, int32_t q_len, int32_t kv_len,
                         MaskMode mask = MaskMode::kNone) {
  AttentionCase c{AttentionOf(dtype, dtype, dtype, 1, 1, 128, 128, 16), {q_len}, {kv_len}};
  c.problem.mask = mask;
  return c;
}

/// All keys `key`, and values value(token).
template <class Value>
void SetAll(const AttentionCase& c, AttentionInputs& in, double key, Value value) {
  for (int64_t t = 0; t < c.kv_len[0]; ++t) {
    for (int64_t g = 0; g < c.problem.num_kv_heads; ++g) {
      for (int64_t d = 0; d < 128; ++d) {
        in.SetKey(0, t, g, d, key);
        in.SetValue(0, t, g, d, value(t));
      }
    }
  }
}

/// Every head and element of each row is out[row], and lse[row] its lse.
void ExpectRows(const AttentionCase& c, const AttentionInputs& in, const std::vector<double>& out,
                const std::vector<double>& lse) {
  for (int64_t i = 0; i < c.q_len[0]; ++i) {
    for (int64_t h = 0; h < c.problem.num_qo_heads; ++h) {
      const auto row = static_cast<size_t>(i);
      if (!lse.empty()) {
        EXPECT_TRUE(Near(in.lse.At({i, h}), lse[row], {1e-6, 0})) << i << " " << in.lse.At({i, h});
      }
      for (int64_t d = 0; d < 128; ++d) ASSERT_EQ(in.out.At({i, h, d}), out[row]) << i;
    }
  }
}

TEST(AttentionForms, CausalRowsWithoutKeysAreZeroAndMinusInfinity) {
  for (Form form : kPrefillForms) {
    for (DType dtype : {DType::kBF16, DType::kF16}) {
      for (int32_t num_qo_heads : {1, 32}) {
        AttentionCase c = As(form, OneRequest(dtype, 4, 2, MaskMode::kCausal));
        c.problem.num_qo_heads = num_qo_heads;
        c.problem.num_kv_heads = num_qo_heads == 1 ? 1 : 8;
        AttentionInputs in(c, 51);
        SetAll(c, in, 0, [](int64_t t) { return 1.0 + 2.0 * static_cast<double>(t); });
        RunBy(form, c, in);
        ExpectRows(c, in, {0, 0, 1, 2}, {-kInf, -kInf, 0, 1});
      }
      // Past a tile of rows, and no key at all.
      for (const auto& [m, n] : {std::pair{33, 1}, {130, 1}, {5, 0}, {97, 0}}) {
        const AttentionCase c = As(form, OneRequest(dtype, m, n, MaskMode::kCausal));
        AttentionInputs in(c, 52);
        SetAll(c, in, 0, [](int64_t) { return 3.0; });
        RunBy(form, c, in);
        std::vector<double> out(static_cast<size_t>(m), 0);
        std::vector<double> lse(static_cast<size_t>(m), -kInf);
        if (n == 1) {
          out.back() = 3;
          lse.back() = 0;
        }
        ExpectRows(c, in, out, lse);
      }
    }
  }
}

TEST(AttentionForms, AVeryNegativeFiniteScoreIsStillAScore) {
  for (Form form : kAllForms) {
    for (int32_t split : {0, 64}) {
      AttentionCase c = As(form, OneRequest(DType::kBF16, 1, 1));
      c.problem.fixed_split_size = split;
      AttentionInputs in(c, 53);
      in.q.Fill(64);
      SetAll(c, in, -64, [](int64_t) { return 1.0; });
      RunBy(form, c, in);
      ExpectRows(c, in, {1}, {});
      EXPECT_NEAR(in.lse.At({0, 0}), -66855.859, 0.05);
    }
  }
}

TEST(AttentionForms, OneLargerScoreAmongVeryNegativeOnes) {
  for (Form form : kAllForms) {
    for (double score : {-4e4, -1e5, -6e5}) {
      const AttentionCase c = As(form, OneRequest(DType::kF32, 1, 64));
      AttentionInputs in(c, 54);
      in.q.Fill(0);
      in.q.Set({0, 0, 0}, std::sqrt(128.0));
      for (int64_t t = 0; t < 64; ++t) in.SetKey(0, t, 0, 0, t == 0 ? score + 5000 : score);
      const AttentionResult expected = AttentionOracle(c, in);
      RunBy(form, c, in);
      EXPECT_TRUE(AllNear(in.out, expected.out, {1e-5, 5e-3}));
    }
  }
}

TEST(AttentionForms, LseIsOfBase2) {
  for (Form form : kAllForms) {
    const AttentionCase c = As(form, OneRequest(DType::kF16, 1, 4));
    AttentionInputs in(c, 55);
    SetAll(c, in, 0, [](int64_t) { return 1.0; });
    RunBy(form, c, in);
    EXPECT_EQ(in.lse.At({0, 0}), 2.0);
  }
}

TEST(AttentionForms, AWindowCountsKeysLeftOfSelf) {
  const auto number = [](int64_t t) { return static_cast<double>(t); };
  for (Form form : kAllForms) {
    for (const auto& [window, value, num_keys] : {std::tuple{-1, 3.5, 8},
                                                  {0, 7.0, 1},
                                                  {1, 6.5, 2},
                                                  {6, 4.0, 7},
                                                  {7, 3.5, 8},
                                                  {8, 3.5, 8},
                                                  {100, 3.5, 8}}) {
      AttentionCase c = As(form, OneRequest(DType::kF16, 1, 8));
      c.problem.window_left = window;
      AttentionInputs in(c, 56);
      SetAll(c, in, 0, number);
      RunBy(form, c, in);
      ExpectRows(c, in, {value}, {std::log2(num_keys)});
    }
  }
  for (Form form : kPrefillForms) {
    AttentionCase c = As(form, OneRequest(DType::kF16, 4, 8, MaskMode::kCausal));
    c.problem.window_left = 2;
    AttentionInputs in(c, 57);
    SetAll(c, in, 0, number);
    RunBy(form, c, in);
    ExpectRows(c, in, {3, 4, 5, 6}, {});
    AttentionCase longer = As(form, OneRequest(DType::kF16, 6, 3, MaskMode::kCausal));
    longer.problem.window_left = 1;
    AttentionInputs longer_in(longer, 58);
    SetAll(longer, longer_in, 0, number);
    RunBy(form, longer, longer_in);
    ExpectRows(longer, longer_in, {0, 0, 0, 0, 0.5, 1.5}, {-kInf, -kInf, -kInf, 0, 1, 1});
  }
}

TEST(AttentionForms, AWindowBesideATilesEdge) {
  for (Form form : kPrefillForms) {
    for (int32_t window : {126, 127, 128, 129, 130}) {
      for (int32_t page_size : {16, 1}) {
        AttentionCase c = As(form, OneRequest(DType::kF32, 300, 300, MaskMode::kCausal));
        c.problem.window_left = window;
        c.problem.page_size = page_size;
        AttentionInputs in(c, 59);
        SetAll(c, in, 0, [](int64_t t) { return static_cast<double>(t); });
        RunBy(form, c, in);
        for (int64_t i = 0; i < 300; ++i) {
          const double mean = static_cast<double>(std::max<int64_t>(0, i - window) + i) / 2;
          ASSERT_NEAR(in.out.At({i, 0, 77}), mean, 1e-4) << window << " " << i;
        }
      }
    }
  }
}

/// `c` by every form, from one set of numbers.
void ExpectSameBits(const AttentionCase& c, std::span<const Form> forms,
                    const std::vector<std::string>& candidates) {
  for (const std::string& candidate : candidates) {
    std::vector<double> first;
    for (Form form : forms) {
      SCOPED_TRACE(CaseText(candidate, c));
      const AttentionCase as = As(form, c);
      AttentionInputs in(as, 60);
      std::mt19937_64 rng(61);  // the pools of the forms take different amounts of random numbers
      std::normal_distribution<double> normal;
      for (int64_t t = 0; t < c.kv_len[0]; ++t) {
        for (int64_t d = 0; d < c.problem.head_dim_qk; ++d) in.SetKey(0, t, 0, d, normal(rng));
        for (int64_t d = 0; d < c.problem.head_dim_vo; ++d) in.SetValue(0, t, 0, d, normal(rng));
      }
      in.q.FillNormal(rng);
      RunBy(form, as, in, candidate);
      std::vector<double> result = in.out.Values();
      for (double lse : in.lse.Values()) result.push_back(lse);
      if (first.empty()) first = result;
      EXPECT_EQ(result, first) << static_cast<int>(form);
    }
  }
}

TEST(AttentionForms, GiveTheSameBits) {
  AttentionCase c{
      AttentionOf(DType::kBF16, DType::kBF16, DType::kBF16, 3, 1, 64, 32, 16), {70}, {133}};
  for (KvLayout layout : {KvLayout::kNHD, KvLayout::kHND}) {
    for (PositionEncoding encoding : {PositionEncoding::kNone, PositionEncoding::kRopeLlama}) {
      c.layout = layout;
      c.problem.pos_encoding = encoding;
      c.problem.mask = MaskMode::kCausal;
      ExpectSameBits(c, kPrefillForms, AcceptingCandidates<BatchPrefillOp>(c.problem));
      AttentionCase decode = c;
      decode.q_len = {1};
      decode.problem.mask = MaskMode::kNone;
      constexpr Form kDecodeForms[] = {Form::kDecode, Form::kSingleDecode};
      ExpectSameBits(decode, kDecodeForms, AcceptingCandidates<BatchDecodeOp>(decode.problem));
    }
  }
}

TEST(AttentionForms, EachGroupReadsItsKvHead) {
  for (Form form : kAllForms) {
    for (int32_t ratio : {1, 2, 3, 5, 6, 7, 8, 12, 16, 32, 64}) {
      for (int32_t num_kv_heads : {1, 4}) {
        AttentionCase c = As(form, OneRequest(DType::kF16, 1, 77));
        c.problem.num_kv_heads = num_kv_heads;
        c.problem.num_qo_heads = num_kv_heads * ratio;
        AttentionInputs in(c, 62);
        for (int64_t g = 0; g < num_kv_heads; ++g) {
          for (int64_t t = 0; t < 77; ++t) {
            for (int64_t d = 0; d < 128; ++d) {
              in.SetValue(0, t, g, d, static_cast<double>(g + 1));
            }
          }
        }
        RunBy(form, c, in);
        for (int64_t h = 0; h < c.problem.num_qo_heads; ++h) {
          const int64_t kv_head = h / ratio;
          const auto value = static_cast<double>(kv_head + 1);
          ASSERT_NEAR(in.out.At({0, h, 3}), value, value / 1024) << h;
        }
      }
    }
  }
}

}  // namespace
}  // namespace flashinfer::test
