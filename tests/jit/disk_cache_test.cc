// SPDX-License-Identifier: Apache-2.0
// The kernel cache on disk: what is kept, and that nothing damaged is ever given out.
#include "jit/disk_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "core/log.h"
#include "jit/cache_folder.h"
#include "support/test_files.h"

namespace flashinfer::jit {
namespace {

namespace fs = std::filesystem;
using test::ReadWholeFile;
using test::WriteTextFile;

const Target kTarget{90, Features::kChip};
constexpr const char* kDigest = "0123456789abcdef0123456789abcdef";

Binary MakeBinary(uint64_t seed, size_t size = 5000) {
  std::mt19937_64 rng(seed);
  Binary binary{.cubin = std::string(size, '\0'),
                .resources = {.num_registers = 40,
                              .stack_bytes = 0,
                              .spill_store_bytes = 8,
                              .spill_load_bytes = 16,
                              .static_smem_bytes = 128},
                .compiler = "nvrtc-13.0"};
  for (char& byte : binary.cubin) byte = static_cast<char>(rng());
  return binary;
}

class DiskCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("flashinfer-cache-" + std::to_string(getpid()));
    log_ = (folder_ / "log").string();
    fs::create_directories(folder_);
    SetLogging(0, log_);
  }
  void TearDown() override {
    SetLogging(0, "stderr");
    fs::remove_all(folder_);
  }
  DiskCache Cache() const { return DiskCache((folder_ / "kernels").string()); }
  std::string EntryPath() const {
    return (folder_ / "kernels" / kDigest).string() + ".nvrtc-13.0.kernel";
  }
  std::optional<Binary> Load() const { return Cache().Load(kDigest, kTarget, "nvrtc-13.0"); }

  fs::path folder_;
  std::string log_;
};

TEST_F(DiskCacheTest, AFolderThatOthersCanWriteIsNotUsed) {
  const std::string own = (folder_ / "own").string();
  EXPECT_EQ(OwnFolder(own), own);
  EXPECT_EQ(fs::status(own).permissions(), fs::perms::owner_all);
  EXPECT_EQ(OwnFolder(own), own);
  fs::permissions(own, fs::perms::owner_all | fs::perms::others_write);
  EXPECT_EQ(OwnFolder(own), "");
  fs::permissions(own, fs::perms::owner_all);
  fs::create_directory_symlink(own, folder_ / "link");
  EXPECT_EQ(OwnFolder((folder_ / "link").string()), "");
  WriteTextFile(folder_ / "file", "");
  EXPECT_EQ(OwnFolder((folder_ / "file").string()), "");
  const std::string log = ReadWholeFile(log_);
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  EXPECT_THAT(log, testing::HasSubstr("own: is not a folder that this user alone can write to"));
}

TEST_F(DiskCacheTest, WithoutAFolderNothingIsKept) {
  const DiskCache none("");
  none.Save(kDigest, kTarget, "norm.simt", MakeBinary(1));
  EXPECT_FALSE(none.Load(kDigest, kTarget, "nvrtc-13.0").has_value());
  EXPECT_EQ(none.LeaveSource(kDigest, "source"), "");
  EXPECT_TRUE(none.List().empty());
  EXPECT_EQ(none.Clear(), 0);
}

TEST_F(DiskCacheTest, GivesBackWhatWasSaved) {
  EXPECT_FALSE(Load());
  const Binary binary = MakeBinary(1);
  Cache().Save(kDigest, kTarget, "norm.simt dtype=bf16", binary);
  const std::optional<Binary> loaded = Load();
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->cubin, binary.cubin);
  EXPECT_EQ(loaded->resources, binary.resources);
  EXPECT_EQ(loaded->compiler, "nvrtc-13.0");
  const std::vector<CacheEntry> entries = Cache().List();
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].spec, "norm.simt dtype=bf16");
  EXPECT_EQ(entries[0].target, "sm_90a");
  EXPECT_EQ(Cache().Clear(), 1);
  EXPECT_FALSE(Load());
}

TEST_F(DiskCacheTest, VersionsOfTheCompilerLieSideBySide) {
  const Binary old_one = MakeBinary(1);
  Binary later = MakeBinary(2);
  later.compiler = "nvrtc-13.1";
  Cache().Save(kDigest, kTarget, "norm.simt", old_one);
  Cache().Save(kDigest, kTarget, "norm.simt", later);
  EXPECT_EQ(Cache().Load(kDigest, kTarget, "nvrtc-13.0")->cubin, old_one.cubin);
  EXPECT_EQ(Cache().Load(kDigest, kTarget, "nvrtc-13.1")->cubin, later.cubin);
  EXPECT_FALSE(Cache().Load(kDigest, kTarget, "nvrtc-13.2"));
  // Without a compiler any will do.
  EXPECT_TRUE(Cache().Load(kDigest, kTarget, ""));
}

TEST_F(DiskCacheTest, AnotherArchitectureIsNotGivenOut) {
  Cache().Save(kDigest, {80}, "norm.simt", MakeBinary(1));
  EXPECT_FALSE(Load());
  EXPECT_THAT(ReadWholeFile(log_), testing::HasSubstr("is for sm_80, not sm_90a; removed"));
}

TEST_F(DiskCacheTest, TornFilesAreRemovedLoggedAndRebuilt) {
  Cache().Save(kDigest, kTarget, "norm.simt", MakeBinary(1, 700));
  const std::string whole = ReadWholeFile(EntryPath());
  for (size_t size = 0; size < whole.size(); size += size < 300 ? 1 : 97) {
    WriteTextFile(EntryPath(), whole.substr(0, size));
    EXPECT_FALSE(Load()) << size;
    EXPECT_FALSE(fs::exists(EntryPath())) << size;
  }
  WriteTextFile(EntryPath(), whole + "x");
  EXPECT_FALSE(Load());
  EXPECT_THAT(ReadWholeFile(log_), testing::HasSubstr("; removed"));
  Cache().Save(kDigest, kTarget, "norm.simt", MakeBinary(1, 700));
  EXPECT_TRUE(Load());
}

TEST_F(DiskCacheTest, FlippedBitsAreFound) {
  Cache().Save(kDigest, kTarget, "norm.simt", MakeBinary(1, 400));
  const std::string whole = ReadWholeFile(EntryPath());
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
    WriteTextFile(EntryPath(), flipped);
    EXPECT_FALSE(Load()) << at;
  }
}

TEST_F(DiskCacheTest, AnEntryFromTheYear2000IsAsGood) {
  Cache().Save(kDigest, kTarget, "norm.simt", MakeBinary(1));
  const timespec year_2000{.tv_sec = 946684800, .tv_nsec = 0};
  const timespec times[2] = {year_2000, year_2000};
  ASSERT_EQ(utimensat(AT_FDCWD, EntryPath().c_str(), times, 0), 0);
  EXPECT_TRUE(Load());
}

TEST_F(DiskCacheTest, AFolderThatIsAFileCostsOneWarning) {
  WriteTextFile((folder_ / "kernels").string(), "");
  Cache().Save(kDigest, kTarget, "norm.simt", MakeBinary(1));
  Cache().Save(kDigest, kTarget, "norm.simt", MakeBinary(1));
  EXPECT_FALSE(Load());
  const std::string log = ReadWholeFile(log_);
  EXPECT_THAT(log, testing::HasSubstr("kept in memory alone"));
  EXPECT_EQ(std::ranges::count(log, '\n'), 1) << log;
}

}  // namespace
}  // namespace flashinfer::jit
