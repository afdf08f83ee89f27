// SPDX-License-Identifier: Apache-2.0
// Attention variants compile for every kind of GPU without spills; errors in them name the line of
// the user's file, and what is wrong with a function.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "flashinfer/attention/variant.h"
#include "flashinfer/error.h"
#include "flashinfer/jit.h"
#include "support/test_files.h"

namespace flashinfer::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// The smallest kernels there are: what a variant adds is the same in all, and they compile fast.
constexpr const char* kDecode =
    "decode.simt dtype_q=f16 dtype_kv=f16 dtype_out=f16 token_lanes=8 rows_tile=1 tokens_tile=1 "
    "num_stages=2";
constexpr const char* kPrefill =
    "prefill.mma dtype_q=f16 dtype_kv=f16 dtype_out=f16 qk_columns=16 vo_columns=16 num_warps=1 "
    "row_tiles=1 kv_tile=16";
constexpr const char* kDecodeMma =
    "decode.mma dtype_q=f16 dtype_kv=f16 dtype_out=f16 head_dim_qk=16 head_dim_vo=16 num_warps=1";

std::vector<fs::path> Examples() {
  std::vector<fs::path> files;
  for (const auto& file : fs::directory_iterator(fs::path(EnvOr("FLASHINFER_SOURCE_DIR", ".")) /
                                                 "examples/variants")) {
    files.push_back(file.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

class VariantCompileTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const CompilerInfo compiler = FindCompiler();
    if (compiler.name.empty()) GTEST_SKIP() << compiler.why_not;
  }
};

void ExpectCompiles(const std::string& spec, const AttentionVariant& variant,
                    const std::string& arch) {
  SCOPED_TRACE(fmt::format("{} {} sm_{}", spec, variant.name(), arch));
  CompiledKernel kernel;
  ASSERT_NO_THROW(kernel = CompileKernel(spec, arch, &variant));
  EXPECT_FALSE(kernel.cubin.empty());
  EXPECT_EQ(kernel.log, "");
  // For a block of one warp ptxas takes 64 registers on SM80, for the sake of more blocks, and
  // spills up to four; a mask's index is one more on SM90.
  EXPECT_LE(kernel.spill_store_bytes, 16);
  EXPECT_THAT(kernel.spec, HasSubstr("variant=" + variant.name()));
}

TEST_P(VariantCompileTest, EveryExampleCompiles) {
  const std::vector<fs::path> examples = Examples();
  ASSERT_GE(examples.size(), 12u);
  for (const fs::path& file : examples) {
    const AttentionVariant variant = AttentionVariant::FromFile(file);
    ExpectCompiles(kPrefill, variant, GetParam());
    if (GetParam() != "80" && GetParam() != "120a") ExpectCompiles(kDecode, variant, GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Archs, VariantCompileTest, testing::Values("75", "80", "90a", "120a"),
                         [](const auto& info) { return "sm" + info.param; });

TEST_F(VariantCompileTest, DecodeOnTensorCoresTakesAllButQueriesAndKeys) {
  for (const fs::path& file : Examples()) {
    if (file.stem() == "smoothed_keys") continue;
    ExpectCompiles(kDecodeMma, AttentionVariant::FromFile(file), "90a");
  }
}

/// Kernels as heads of 128 take them, groups of 4 in decode.
TEST_F(VariantCompileTest, LargeKernelsDoNotSpill) {
  const fs::path folder = Examples().front().parent_path();
  for (const char* name : {"sigmoid.cu", "custom_mask.cu", "macro_sinks.cu"}) {
    const AttentionVariant variant = AttentionVariant::FromFile(folder / name);
    ExpectCompiles("decode.simt rows_tile=4 num_stages=2", variant, "90a");
    ExpectCompiles("prefill.mma row_tiles=1", variant, "90a");
  }
}

/// What goes with a variant: other functions of the kernels than the examples' need.
TEST_F(VariantCompileTest, OtherFormsOfKernels) {
  const fs::path folder = Examples().front().parent_path();
  const AttentionVariant keys = AttentionVariant::FromFile(folder / "smoothed_keys.cu");
  const AttentionVariant sigmoid = AttentionVariant::FromFile(folder / "sigmoid.cu");
  for (const char* fields :
       {"rope=1 kv_access_bytes=8", "mask=1 soft_cap=1", "mask=2 alibi=1 has_bias=1",
        "row_scales=1 kv_access_bytes=2 q_access_bytes=2 out_access_bytes=2", "vo_slices=2"}) {
    ExpectCompiles(fmt::format("{} {}", kPrefill, fields), keys, "80");
    ExpectCompiles(fmt::format("{} {}", kPrefill, fields), sigmoid, "80");
  }
  for (const char* fields : {"rope=1", "mask=1 soft_cap=1", "mask=2 alibi=1 has_bias=1"}) {
    const std::string spec =
        fmt::format("prefill.simt qk_columns=16 vo_columns=16 num_warps=1 kv_tile=8 {}", fields);
    ExpectCompiles(spec, keys, "75");
    ExpectCompiles(spec, sigmoid, "75");
  }
  ExpectCompiles(fmt::format("{} soft_cap=1", kDecode), keys, "80");
  ExpectCompiles("decode.simt dtype_q=e4m3 dtype_kv=e4m3 dtype_out=bf16 rows_tile=1", keys, "90a");
  ExpectCompiles(
      "prefill.mma dtype_q=f32 dtype_kv=e4m3 dtype_out=f32 qk_columns=16 vo_columns=16 "
      "num_warps=1 row_tiles=1 kv_tile=16 row_scales=1",
      keys, "90a");
}

void ExpectFails(const std::string& text, const std::string& words) {
  const AttentionVariant variant = AttentionVariant::FromText("folder/mine.cuh", text);
  for (const char* spec : {kDecode, kPrefill}) {
    SCOPED_TRACE(spec);
    try {
      CompileKernel(spec, "90a", &variant);
      ADD_FAILURE() << "it compiled";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCompile);
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
  }
}

TEST_F(VariantCompileTest, ErrorsNameTheLineOfTheUsersFile) {
  ExpectFails(
      "// param: f32 scale\n"
      "struct Variant {\n"
      "  static float Logit(const VariantParams& p, float logit, const LogitPosition& at) {\n"
      "    return logit * p.scales;\n"
      "  }\n"
      "};\n",
      "mine.cuh(4): error: class \"VariantParams\" has no member \"scales\"");
  ExpectFails(
      "struct Variant {\n"
      "  static bool Sees(const VariantParams& p, const LogitPosition& at) {\n"
      "    return at.kv_index < at.kv_length;\n"
      "  }\n"
      "};",
      "mine.cuh(3): error:");
  ExpectFails("#include \"no_such.h\"\nstruct Variant {};",
              "mine.cuh(1): catastrophic error: cannot open source file \"no_such.h\"");
  ExpectFails(
      "// struct: Mine\n"
      "struct Mine : AttentionVariantBase {\n"
      "  template <typename Params>\n"
      "  __device__ Mine(const Params& params, uint32_t batch_idx, uint8_t* smem) {}\n"
      "  REGISTER_LOGITS_TRANSFORM(params, logits, batch_idx, qo_idx, kv_idx, qo_head_idx,\n"
      "                            kv_head_idx, { return logits * params.factor; })\n"
      "};\n",
      "mine.cuh(5): error: class \"VariantParams\" has no member \"factor\"");
}

TEST_F(VariantCompileTest, WrongFunctionsAreNotPassedOver) {
  ExpectFails("struct Variant {};",
              "the variant has none of the functions Query, Key, Logit, Sees, Output");
  ExpectFails("struct Variant { static float Logits(float x) { return x; } };",
              "the variant has none of the functions Query, Key, Logit, Sees, Output");
  ExpectFails("struct Variant { static float Logit(float x) { return x; } };",
              "Logit must be: static float Logit(const VariantParams&, float, "
              "const LogitPosition&)");
  ExpectFails(
      "struct Variant { bool Sees(const VariantParams&, const LogitPosition&) { return true; } };",
      "Sees must be: static bool Sees(const VariantParams&, const LogitPosition&)");
  ExpectFails("struct Variant { static float Query(float x) { return x; } };",
              "Query must be: static float Query(const VariantParams&, float, "
              "const QueryPosition&)");
  ExpectFails("struct Variant { static float Key(float x) { return x; } };",
              "Key must be: static float Key(const VariantParams&, float, const KeyPosition&)");
  ExpectFails("struct Variant { static float Output(float x) { return x; } };",
              "Output must be: static float Output(const VariantParams&, float, "
              "const OutputPosition&)");
  ExpectFails(
      "struct Variant { static constexpr bool kUsesSoftmax = false;\n"
      "  static bool Sees(const VariantParams&, const LogitPosition&) { return true; } };",
      "a variant without softmax must have Logit, which gives the weights");
}

TEST_F(VariantCompileTest, DecodeOnTensorCoresSaysWhatItDoesNotTake) {
  const fs::path folder = Examples().front().parent_path();
  const AttentionVariant keys = AttentionVariant::FromFile(folder / "smoothed_keys.cu");
  try {
    CompileKernel(kDecodeMma, "90a", &keys);
    ADD_FAILURE() << "it compiled";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a variant of Query or Key needs decode.simt"));
  }
}

/// A parameter may have the name of something that every variant may know: it is the variant's own.
TEST_F(VariantCompileTest, ParametersHideWhatCallsHave) {
  const AttentionVariant variant = AttentionVariant::FromText(
      "mine.cuh",
      "// param: i32[] window_left\n"
      "struct Variant {\n"
      "  static bool Sees(const VariantParams& p, const LogitPosition& at) {\n"
      "    return at.q_position() - at.kv_index <= p.window_left[at.qo_head];\n"
      "  }\n"
      "};\n");
  ExpectCompiles(kDecode, variant, "90a");
}

TEST_F(VariantCompileTest, ItsKernelIsCachedByItsCode) {
  const auto text = [](int line) {
    return fmt::format(
        "struct Variant {{ static bool Sees(const VariantParams&, const LogitPosition& at) "
        "{{ return at.kv_index > {}; }} }};",
        line);
  };
  const AttentionVariant first = AttentionVariant::FromText("mine.cuh", text(1));
  const AttentionVariant second = AttentionVariant::FromText("mine.cuh", text(2));
  const std::string spec = kDecode;
  const std::string folder = testing::TempDir() + "variant_cache";
  SetCacheFolder(folder);
  ClearKernelCache();
  EXPECT_EQ(GetKernel(spec, "90a", &first).origin, "compiled");
  EXPECT_EQ(GetKernel(spec, "90a", &second).origin, "compiled");
  EXPECT_EQ(GetKernel(spec, "90a", &first).origin, "memory");
  EXPECT_NE(GetKernel(spec, "90a", &first).cubin, GetKernel(spec, "90a", &second).cubin);
  EXPECT_EQ(CachedKernels().size(), 2u);
  ClearKernelCache();
  SetCacheFolder("");
}

}  // namespace
}  // namespace flashinfer::test
