// SPDX-License-Identifier: Apache-2.0
// User-written attention variants but for their code: parameters, names, values, units, and what
// says no to them.
#include "ops/attention_variant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "backends/cuda/attention_variant.h"
#include "backends/cuda/kernel_families.h"
#include "flashinfer/attention/cascade.h"
#include "flashinfer/attention/decode.h"
#include "flashinfer/attention/prefill.h"
#include "flashinfer/error.h"
#include "flashinfer/jit.h"
#include "jit/key.h"

namespace flashinfer {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

constexpr const char* kText =
    "// param: f32 bias\n"
    "// param: f16[] slopes  // [num_qo_heads]\n"
    "struct Variant {\n"
    "  static float Logit(const VariantParams& p, float x, const LogitPosition&) { return x; }\n"
    "};\n";

TEST(AttentionVariant, ReadsItsParameters) {
  const AttentionVariant variant = AttentionVariant::FromText("a/b/mine.cuh", kText);
  ASSERT_EQ(variant.parameters().size(), 2u);
  EXPECT_EQ(variant.parameters()[0].name, "bias");
  EXPECT_EQ(variant.parameters()[0].dtype, DType::kF32);
  EXPECT_FALSE(variant.parameters()[0].is_tensor);
  EXPECT_EQ(variant.parameters()[1].name, "slopes");
  EXPECT_EQ(variant.parameters()[1].dtype, DType::kF16);
  EXPECT_TRUE(variant.parameters()[1].is_tensor);
  EXPECT_THAT(variant.name(), StartsWith("mine:"));
  EXPECT_EQ(variant.name().size(), 5u + 16u);
}

TEST(AttentionVariant, ItsNameHashesAllThatItHoldsButFolders) {
  const auto name = [](const char* file, const std::string& text) {
    return AttentionVariant::FromText(file, text).name();
  };
  EXPECT_EQ(name("a/mine.cuh", kText), name("/b/c/mine.cuh", kText));
  EXPECT_NE(name("mine.cuh", kText), name("mine.h", kText));
  EXPECT_NE(name("mine.cuh", kText), name("mine.cuh", std::string(kText) + " "));
  const auto declared = [](const char* type) {
    return AttentionVariant::FromDeclaration({.struct_name = "S",
                                              .text = "struct S {};",
                                              .tensor_names = {"x"},
                                              .tensor_types = {type},
                                              .scalar_names = {},
                                              .scalar_types = {}})
        .name();
  };
  EXPECT_THAT(declared("float"), StartsWith("S:"));
  EXPECT_NE(declared("float"), declared("int32_t"));
  EXPECT_EQ(declared("float"), declared("double"));  // which the code sees as a float
}

TEST(AttentionVariant, RefusesWhatItCannotHold) {
  const auto of = [](const std::string& text) {
    return [text] { AttentionVariant::FromText("x.cuh", text); };
  };
  EXPECT_THAT(of("// param: f99 a\nstruct Variant {};"),
              ThrowsMessage<Error>(StartsWith("variant: 'f99' is not a type for parameter a; "
                                              "accepted: f32, float, double")));
  EXPECT_THAT(of("// param: f32\nstruct Variant {};"),
              ThrowsMessage<Error>(HasSubstr("is not a parameter; write '// param: f32 name'")));
  EXPECT_THAT(of("// param: f32 2x\nstruct Variant {};"),
              ThrowsMessage<Error>("variant: '2x' is not a name for a parameter"));
  EXPECT_THAT(of("// param: f16 a\nstruct Variant {};"),
              ThrowsMessage<Error>("variant: parameter a is a number of f16; accepted: f32, i32, "
                                   "i64, bool"));
  EXPECT_THAT(of("// param: f32 a\n// param: i32 a\nstruct Variant {};"),
              ThrowsMessage<Error>("variant: parameter a is named twice"));
  EXPECT_THAT(of("struct Other {};"),
              ThrowsMessage<Error>("variant: x.cuh does not declare a struct Variant"));
  std::string many = "struct Variant {};\n";
  for (int i = 0; i < 33; ++i) many += fmt::format("// param: f32 a{}\n", i);
  EXPECT_THAT(of(many),
              ThrowsMessage<Error>("variant: has 33 parameters, at most 32 are accepted"));
  EXPECT_THAT([] { AttentionVariant::FromFile("/no/such/file.cuh"); },
              ThrowsMessage<Error>("/no/such/file.cuh: cannot be read"));
  EXPECT_THAT(
      [] {
        AttentionVariant::FromDeclaration({.struct_name = "S",
                                           .text = "struct S {};",
                                           .tensor_names = {"x"},
                                           .tensor_types = {},
                                           .scalar_names = {},
                                           .scalar_types = {}});
      },
      ThrowsMessage<Error>("variant: 1 names of tensors, 0 types"));
}

TEST(AttentionVariant, ChecksTheValuesOfACall) {
  const AttentionVariant variant = AttentionVariant::FromText("x.cuh", kText);
  std::array<uint16_t, 4> halves{};
  std::array<float, 4> floats{};
  const TensorView good(halves.data(), DType::kF16, {4});
  const TensorView bad(floats.data(), DType::kF32, {4});
  const auto check = [](const AttentionVariant* v, const std::vector<VariantValue>& values) {
    return [v, values] { CheckVariantValues(v, values, {}); };
  };
  EXPECT_NO_THROW(check(&variant, {1.0, good})());
  EXPECT_NO_THROW(check(nullptr, {})());
  EXPECT_THAT(check(&variant, {1.0}),
              ThrowsMessage<Error>(HasSubstr("variant_values: 1 were given, x:")));
  EXPECT_THAT(check(nullptr, {1.0}),
              ThrowsMessage<Error>(HasSubstr("a plan without variant has 0 parameters")));
  EXPECT_THAT(check(&variant, {good, good}),
              ThrowsMessage<Error>("variant_values[0]: is a tensor, bias is a number"));
  EXPECT_THAT(check(&variant, {1.0, bad}), ThrowsMessage<Error>(HasSubstr("slopes")));
  EXPECT_THAT(check(&variant, {1.0, 2.0}), ThrowsMessage<Error>(HasSubstr("slopes")));
}

TEST(AttentionVariant, TensorsOfMacrosMayBeAbsentByTheirName) {
  const AttentionVariant variant =
      AttentionVariant::FromDeclaration({.struct_name = "S",
                                         .text = "struct S {};",
                                         .tensor_names = {"maybe_mask"},
                                         .tensor_types = {"uint8_t"},
                                         .scalar_names = {"sm_scale"},
                                         .scalar_types = {"double"}});
  const std::vector<VariantValue> values{TensorView(), 0.5};
  EXPECT_NO_THROW(CheckVariantValues(&variant, values, {}));
  const auto packed = cuda::PackVariantValues(variant, values);
  EXPECT_EQ(packed[0], 0u);
  float scale = 0;
  std::memcpy(&scale, &packed[1], sizeof(scale));
  EXPECT_EQ(scale, 0.5f);
}

TEST(AttentionVariant, ValuesAreEightBytesEach) {
  const AttentionVariant variant = AttentionVariant::FromText(
      "x.cuh",
      "// param: i32 a\n// param: i64 b\n// param: bool c\n// param: i32[] d\nstruct Variant {};");
  std::array<int32_t, 2> data{};
  const std::vector<VariantValue> values{-3.0, 0x1p40, 1.0,
                                         TensorView(data.data(), DType::kI32, {2})};
  const auto packed = cuda::PackVariantValues(variant, values);
  EXPECT_EQ(static_cast<int32_t>(packed[0]), -3);
  EXPECT_EQ(packed[1], uint64_t{1} << 40);
  EXPECT_EQ(packed[2], 1u);
  EXPECT_EQ(packed[3], reinterpret_cast<uint64_t>(data.data()));
}

TEST(AttentionVariant, LengthsOfABatch) {
  AttentionTables tables;
  tables.q_begin = {0, 2, 5};
  tables.kv_len = {7, 9};
  const std::vector<int32_t> lengths = cuda::VariantLengths(tables);
  EXPECT_EQ(lengths, (std::vector<int32_t>{0, 2, 5, 7, 9}));
  const kernels::VariantCall call = cuda::VariantCallOf(
      {.num_qo_heads = 6, .num_kv_heads = 3, .window_left = 4, .sm_scale = 0.5f}, lengths.data(),
      2);
  EXPECT_EQ(call.q_indptr[2], 5);
  EXPECT_EQ(call.kv_lens[1], 9);
  EXPECT_EQ(call.window_left, 4);
  EXPECT_EQ(call.num_qo_heads, 6);
  EXPECT_EQ(call.num_kv_heads, 3);
  EXPECT_EQ(call.num_requests, 2);
  EXPECT_EQ(call.sm_scale, 0.5f);
}

TEST(AttentionVariant, AUnitHoldsItsCodeAndCountsItsLines) {
  const AttentionVariant variant = AttentionVariant::FromText("a/mine.cuh", kText);
  const std::string source = KernelSource("decode.simt", &variant);
  EXPECT_THAT(source.substr(0, source.find('\n')), HasSubstr("variant=" + variant.name()));
  for (const char* words :
       {"struct VariantParams : VariantCall {\n  alignas(8) float bias;\n"
        "  VariantTensor<DType::kF16> slopes;\n};\nstatic_assert(sizeof(VariantParams) == 56);\n",
        "#line 1 \"mine.cuh\"\n// param: f32 bias\n",
        "UserVariant<Variant, VariantParams>::Params<DecodeSpec::Params> params",
        "decode_simt::Run<kSpec, UserVariant<Variant, VariantParams>>(params);"}) {
    EXPECT_THAT(source, HasSubstr(words));
  }
  // The number behind the text is that of the next line.
  const size_t at = source.rfind("#line ");
  const auto line = std::count(source.begin(), source.begin() + static_cast<int64_t>(at), '\n') + 2;
  EXPECT_THAT(source.substr(at), StartsWith(fmt::format("#line {} \"unit.cu\"\n", line)));
  const jit::Unit unit = cuda::RenderText("decode.simt", &variant);
  EXPECT_NE(jit::Digest(unit, {90}), jit::Digest(cuda::RenderText("decode.simt"), {90}));
  const AttentionVariant other =
      AttentionVariant::FromText("mine.cuh", std::string(kText) + "// other\n");
  EXPECT_NE(jit::Digest(unit, {90}), jit::Digest(cuda::RenderText("decode.simt", &other), {90}));
}

TEST(AttentionVariant, ASpecThatNamesOneNeedsIt) {
  const AttentionVariant variant = AttentionVariant::FromText("mine.cuh", kText);
  const std::string spec = cuda::RenderText("prefill.mma", &variant).spec;
  EXPECT_EQ(cuda::RenderText(spec, &variant).spec, spec);
  EXPECT_THAT([&] { KernelSource(spec); },
              ThrowsMessage<Error>(HasSubstr("its code must be given too (flashinfer compile SPEC "
                                             "--variant FILE)")));
  const AttentionVariant other = AttentionVariant::FromText("other.cuh", kText);
  EXPECT_THAT([&] { KernelSource(spec, &other); },
              ThrowsMessage<Error>(HasSubstr("the spec names 'mine:")));
  EXPECT_THAT([&] { KernelSource("norm.simt", &variant); },
              ThrowsMessage<Error>(
                  "variant: norm.simt takes none; families that do: decode.mma, decode.simt, "
                  "prefill.simt, prefill.mma"));
}

TEST(AttentionVariant, BackendsSayWhatTheyThinkOfIt) {
  const AttentionVariant variant = AttentionVariant::FromText("mine.cuh", kText);
  AttentionProblem problem{.variant = &variant};
  const std::string on_host = Text(BatchPrefill::Explain(problem));
  EXPECT_THAT(on_host, HasSubstr("variant=" + variant.name()));
  EXPECT_THAT(on_host, HasSubstr("a variant is code for CUDA devices, and nothing is compiled "
                                 "here"));
  const AttentionVariant macros =
      AttentionVariant::FromText("m.cuh", "// struct: S\nstruct S : AttentionVariantBase {};");
  problem.arch = 90;
  problem.variant = &macros;
  problem.logits_soft_cap = 30;
  EXPECT_THAT(Text(BatchDecode::Explain(problem)),
              HasSubstr("logits_soft_cap must be 0 with code for macros"));
  problem.logits_soft_cap = 0;
  problem.pos_encoding = PositionEncoding::kAlibi;
  EXPECT_THAT(Text(BatchPrefill::Explain(problem)),
              HasSubstr("pos_encoding must not be alibi with code for macros"));
  problem.pos_encoding = PositionEncoding::kNone;
  EXPECT_THAT([&] { MultiLevelCascadeAttention::WorkspaceBytes(problem, 1, 1); },
              ThrowsMessage<Error>(HasSubstr("variant: is m:")));
}

TEST(AttentionVariant, APlanOnTheCpuSaysWhyNot) {
  const AttentionVariant variant = AttentionVariant::FromText("mine.cuh", kText);
  Workspace workspace;
  BatchPrefillRagged prefill(workspace);
  const std::array<int32_t, 2> indptr{0, 1};
  const TensorView view(indptr.data(), DType::kI32, {2});
  EXPECT_THAT([&] { prefill.Plan({.variant = &variant}, view, view); },
              ThrowsMessage<Error>(HasSubstr("a variant is code for CUDA devices")));
}

}  // namespace
}  // namespace flashinfer
