// SPDX-License-Identifier: Apache-2.0
// Packs: what goes in comes out, the same bytes every time, and no damage goes unseen.
#include "jit/pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "flashinfer/error.h"
#include "jit/hash.h"
#include "support/test_files.h"

namespace flashinfer::jit {
namespace {

namespace fs = std::filesystem;
using test::ReadWholeFile;
using test::WriteTextFile;

const Target kTarget{90, Features::kChip};

std::vector<PackedKernel> MakeKernels(uint64_t seed, int count) {
  std::mt19937_64 rng(seed);
  std::vector<PackedKernel> kernels;
  for (int i = 0; i < count; ++i) {
    PackedKernel k{.digest = Hash128(std::to_string(i)),
                   .spec = "norm.simt dtype=bf16 row_threads=" + std::to_string(i),
                   .binary = {.cubin = std::string(100 + rng() % 900, 'x'),
                              .resources = {.num_registers = i},
                              .compiler = "nvrtc-13.0"}};
    for (size_t j = 0; j < k.binary.cubin.size(); j += 3) {
      k.binary.cubin[j] = static_cast<char>(rng());
    }
    kernels.push_back(k);
  }
  return kernels;
}

class PackTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("flashinfer-pack-" + std::to_string(getpid()));
    fs::create_directories(folder_);
    path_ = (folder_ / PackFileName(kTarget)).string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// Whether opening the file or unpacking it fails; true too when it gives back what went in, as
  /// bits of a compressed frame that mean nothing may flip.
  bool IsRefusedOrRight(const std::vector<PackedKernel>& kernels) const {
    try {
      const auto pack = Pack::Open(path_);
      bool is_right = pack->items().size() == kernels.size();
      for (const PackedKernel& k : kernels) {
        const PackItem* item = pack->Find(k.digest);
        is_right = is_right && item != nullptr && pack->Unpack(*item).cubin == k.binary.cubin;
      }
      return is_right;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kIo);
      EXPECT_THAT(error.what(), testing::HasSubstr(path_));
      return true;
    }
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(PackTest, WhatGoesInComesOut) {
  const std::vector<PackedKernel> kernels = MakeKernels(1, 20);
  WritePack(path_, kTarget, kernels);
  const auto pack = Pack::Open(path_);
  EXPECT_EQ(fs::path(path_).filename(), "flashinfer-sm90a.pack");
  EXPECT_EQ(pack->target(), "sm_90a");
  EXPECT_EQ(pack->compiler(), "nvrtc-13.0");
  EXPECT_EQ(pack->items().size(), kernels.size());
  for (const PackedKernel& k : kernels) {
    const PackItem* item = pack->Find(k.digest);
    ASSERT_NE(item, nullptr);
    EXPECT_EQ(item->spec, k.spec);
    const Binary binary = pack->Unpack(*item);
    EXPECT_EQ(binary.cubin, k.binary.cubin);
    EXPECT_EQ(binary.resources, k.binary.resources);
  }
  EXPECT_EQ(pack->Find(Hash128("absent")), nullptr);
}

TEST_F(PackTest, OrderAndRepetitionDoNotChangeTheBytes) {
  std::vector<PackedKernel> kernels = MakeKernels(2, 9);
  WritePack(path_, kTarget, kernels);
  const std::string first = ReadWholeFile(path_);
  std::ranges::reverse(kernels);
  kernels.push_back(kernels[4]);
  WritePack(path_, kTarget, kernels);
  EXPECT_EQ(ReadWholeFile(path_), first);
}

TEST_F(PackTest, NoPackIsEmpty) { EXPECT_THROW(WritePack(path_, kTarget, {}), Error); }

TEST_F(PackTest, DamageIsFound) {
  const std::vector<PackedKernel> kernels = MakeKernels(3, 3);
  WritePack(path_, kTarget, kernels);
  const std::string whole = ReadWholeFile(path_);
  for (size_t size = 0; size < whole.size(); size += 13) {
    WriteTextFile(path_, whole.substr(0, size));
    EXPECT_THROW(Pack::Open(path_), Error) << size;
  }
  for (size_t at = 0; at < whole.size(); at += 3) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
    WriteTextFile(path_, flipped);
    EXPECT_TRUE(IsRefusedOrRight(kernels)) << at;
  }
  // Of the text, nothing may change.
  const size_t end_of_index = whole.find("\n\n");
  for (size_t at = 0; at < end_of_index; ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    WriteTextFile(path_, flipped);
    EXPECT_THROW(Pack::Open(path_), Error) << at;
  }
  fs::remove(path_);
  EXPECT_THROW(Pack::Open(path_), Error);
}

}  // namespace
}  // namespace flashinfer::jit
