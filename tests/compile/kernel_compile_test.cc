// SPDX-License-Identifier: Apache-2.0
// Every recipe compiles for every architecture, within recorded registers and spills; specs that
// must not compile fail with the right words.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "flashinfer/error.h"
#include "flashinfer/jit.h"
#include "support/test_files.h"

namespace flashinfer::test {
namespace {

namespace fs = std::filesystem;

/// For these every line is compiled; for the others one of each family, unless
/// FLASHINFER_COMPILE_ALL is set.
const std::set<std::string> kWholeArchs{"75", "80", "90a", "120a"};

fs::path Source(const std::string& name) {
  return fs::path(EnvOr("FLASHINFER_SOURCE_DIR", ".")) / name;
}

std::string FamilyOf(const std::string& spec) { return spec.substr(0, spec.find(' ')); }

/// Lines without comments.
std::vector<std::string> Lines(const fs::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    line = line.substr(0, line.find('#'));
    line = line.substr(0, line.find_last_not_of(' ') + 1);
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

/// The specs of every recipe, and of every family the one with default fields; each once.
std::vector<std::string> Specs() {
  std::vector<std::string> specs;
  std::set<std::string> seen;
  const auto add = [&](const std::string& spec) {
    if (seen.insert(spec).second) specs.push_back(spec);
  };
  for (const auto& file : fs::directory_iterator(Source("packs"))) {
    for (const std::string& spec : Lines(file.path())) add(spec);
  }
  for (const KernelFamilyInfo& family : KernelFamilies()) add(family.example);
  return specs;
}

/// What a kernel may take: registers, and bytes of spills.
struct Budget {
  int32_t num_registers = 0;
  int32_t spill_store_bytes = 0;
  int32_t spill_load_bytes = 0;
};

/// tests/compile/resources.txt: `ARCH REGISTERS SPILL_STORES SPILL_LOADS SPEC`, as the compiler of
/// its first line gave them.
struct Table {
  std::string compiler;
  std::map<std::string, Budget> budgets;  // by arch, space, spec
};

Table ReadTable() {
  Table table;
  std::ifstream file(Source("tests/compile/resources.txt"));
  std::getline(file, table.compiler);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string arch, spec;
    Budget b;
    words >> arch >> b.num_registers >> b.spill_store_bytes >> b.spill_load_bytes;
    std::getline(words >> std::ws, spec);
    table.budgets[fmt::format("{} {}", arch, spec)] = b;
  }
  return table;
}

void WriteTable(const Table& table) {
  std::ofstream file(Source("tests/compile/resources.txt"));
  file << table.compiler << "\n";
  for (const auto& [key, b] : table.budgets) {
    const size_t space = key.find(' ');
    file << key.substr(0, space) << " " << b.num_registers << " " << b.spill_store_bytes << " "
         << b.spill_load_bytes << key.substr(space) << "\n";
  }
}

class KernelCompileTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const CompilerInfo compiler = FindCompiler();
    if (compiler.name.empty()) GTEST_SKIP() << compiler.why_not;
  }
};

void ExpectWithin(const Budget& budget, const CompiledKernel& k, const std::string& key) {
  EXPECT_LE(k.num_registers, budget.num_registers) << key;
  EXPECT_LE(k.spill_store_bytes, budget.spill_store_bytes) << key;
  EXPECT_LE(k.spill_load_bytes, budget.spill_load_bytes) << key;
}

TEST_P(KernelCompileTest, RecipesCompileWithinTheirBudgets) {
  const std::string arch = GetParam();
  const bool takes_all = kWholeArchs.contains(arch) || !EnvOr("FLASHINFER_COMPILE_ALL", "").empty();
  const bool is_recording = !EnvOr("FLASHINFER_RECORD_RESOURCES", "").empty();
  Table table = ReadTable();
  const bool is_comparable = table.compiler == FindCompiler().name;
  std::set<std::string> families;
  for (const std::string& spec : Specs()) {
    if (KernelMinArch(spec) > std::stoi(arch)) continue;
    if (!takes_all && !families.insert(FamilyOf(spec)).second) continue;
    SCOPED_TRACE(fmt::format("sm_{} {}", arch, spec));
    CompiledKernel kernel;
    ASSERT_NO_THROW(kernel = CompileKernel(spec, arch));
    EXPECT_FALSE(kernel.cubin.empty());
    EXPECT_EQ(kernel.log, "");
    const std::string key = fmt::format("{} {}", arch, kernel.spec);
    if (is_recording) {
      table.compiler = kernel.compiler;
      table.budgets[key] = {kernel.num_registers, kernel.spill_store_bytes,
                            kernel.spill_load_bytes};
    } else if (is_comparable && kWholeArchs.contains(arch)) {
      const auto budget = table.budgets.find(key);
      ASSERT_NE(budget, table.budgets.end())
          << "not in resources.txt; FLASHINFER_RECORD_RESOURCES=1 makes this test write it";
      ExpectWithin(budget->second, kernel, key);
    }
  }
  if (is_recording && kWholeArchs.contains(arch)) WriteTable(table);
}

INSTANTIATE_TEST_SUITE_P(Archs, KernelCompileTest, testing::ValuesIn(KernelArchs()),
                         [](const auto& info) { return "sm" + info.param; });

/// What compiles for a chip has the features of its family too, so one kernel is enough.
TEST_F(KernelCompileTest, FamiliesOfChips) {
  const bool takes_all = !EnvOr("FLASHINFER_COMPILE_ALL", "").empty();
  for (const char* arch : {"100f", "103f", "110f", "120f", "121f"}) {
    for (const KernelFamilyInfo& family : KernelFamilies()) {
      SCOPED_TRACE(fmt::format("sm_{} {}", arch, family.example));
      EXPECT_NO_THROW(EXPECT_FALSE(CompileKernel(family.example, arch).cubin.empty()));
      if (!takes_all) break;
    }
  }
  EXPECT_THROW(CompileKernel("norm.simt", "90f"), Error);
}

/// tests/compile/must_fail.txt: `SPEC | ARCH | words of the message`.
TEST_F(KernelCompileTest, SpecsThatMustFailSayWhy) {
  for (const std::string& line : Lines(Source("tests/compile/must_fail.txt"))) {
    SCOPED_TRACE(line);
    const size_t first = line.find(" | ");
    const size_t second = line.find(" | ", first + 3);
    ASSERT_NE(second, std::string::npos) << "expected SPEC | ARCH | words";
    try {
      CompileKernel(line.substr(0, first), line.substr(first + 3, second - first - 3));
      ADD_FAILURE() << "it compiled";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(line.substr(second + 3)));
    }
  }
}

TEST_F(KernelCompileTest, TheUnitSaysWhatItIs) {
  const std::string source = KernelSource("norm.simt dtype=f16");
  EXPECT_THAT(source, testing::StartsWith("// norm.simt dtype=f16 "));
  for (const char* words : {"#include \"kernels/norm/norm_simt_sm75.cuh\"", ".dtype = DType::kF16",
                            "static_assert(sizeof(NormSpec::Params) == ",
                            "static_assert(SmemBytes(kSpec) == ", "flashinfer_kernel("}) {
    EXPECT_THAT(source, testing::HasSubstr(words));
  }
}

TEST_F(KernelCompileTest, CompilationIsCancelled) {
  SetCompileCancelled([] { return true; });
  try {
    CompileKernel("norm.simt", "80");
    ADD_FAILURE() << "it compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCompile);
    EXPECT_THAT(error.what(), testing::HasSubstr("was cancelled"));
  }
  SetCompileCancelled(nullptr);
}

}  // namespace
}  // namespace flashinfer::test
