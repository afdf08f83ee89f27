// SPDX-License-Identifier: Apache-2.0
// Growing, borrowed and frozen workspaces, and an engine's own allocator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "flashinfer/error.h"
#include "flashinfer/stream.h"

namespace flashinfer {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Workspace, GrowsWhenNeededAndStaysOtherwise) {
  Workspace workspace;
  EXPECT_EQ(workspace.capacity_bytes(), 0u);
  void* block = workspace.Reserve(1000);
  std::memset(block, 1, 1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 256, 0u);
  EXPECT_EQ(workspace.capacity_bytes(), 1000u);
  EXPECT_EQ(workspace.Reserve(10), block);
  EXPECT_EQ(workspace.Reserve(1000), block);
  std::memset(workspace.Reserve(100000), 2, 100000);
  EXPECT_EQ(workspace.capacity_bytes(), 100000u);
}

TEST(Workspace, BorrowedNeverGrows) {
  alignas(256) char block[512];
  Workspace workspace = Workspace::Borrow(block, sizeof(block));
  EXPECT_EQ(workspace.Reserve(512), block);
  EXPECT_THAT([&] { workspace.Reserve(513); },
              ThrowsMessage<Error>(HasSubstr("513 bytes are needed, 512 were given")));
  EXPECT_THROW(Workspace::Borrow(nullptr, 1), Error);
  EXPECT_THROW(Workspace::Borrow(block + 1, 1), Error);
  Workspace moved = std::move(workspace);
  EXPECT_EQ(moved.Reserve(1), block);
}

TEST(Workspace, FrozenNamesTheSizeItWouldNeed) {
  Workspace workspace;
  void* block = workspace.Reserve(64);
  workspace.Freeze();
  EXPECT_TRUE(workspace.is_frozen());
  EXPECT_EQ(workspace.Reserve(64), block);
  EXPECT_THAT([&] { workspace.Reserve(65); },
              ThrowsMessage<Error>(HasSubstr("65 bytes are needed, but it is frozen at 64")));
}

struct Counts {
  int64_t live_bytes = 0;
  int num_allocations = 0;
  bool is_out = false;
};

void* Allocate(void* context, size_t bytes, Device) {
  auto* counts = static_cast<Counts*>(context);
  if (counts->is_out) return nullptr;
  counts->live_bytes += static_cast<int64_t>(bytes);
  ++counts->num_allocations;
  return std::aligned_alloc(256, (bytes + 255) / 256 * 256);
}

void Deallocate(void* context, void* block, size_t bytes, Device) {
  static_cast<Counts*>(context)->live_bytes -= static_cast<int64_t>(bytes);
  std::free(block);
}

TEST(Workspace, AnEnginesAllocatorGetsBackWhatItGave) {
  Counts counts;
  {
    Workspace before;
    before.Reserve(100);
    SetAllocator(DeviceType::kCpu, {Allocate, Deallocate, &counts});
    Workspace workspace;
    workspace.Reserve(1000);
    EXPECT_EQ(counts.live_bytes, 1000);
    workspace.Reserve(3000);
    EXPECT_EQ(counts.live_bytes, 3000);
    EXPECT_EQ(counts.num_allocations, 2);
    counts.is_out = true;
    try {
      workspace.Reserve(4000);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kDevice);
      EXPECT_THAT(error.what(), HasSubstr("could not get 4000 bytes on cpu"));
    }
    EXPECT_EQ(counts.live_bytes, 3000);
    SetAllocator(DeviceType::kCpu, {});
  }
  EXPECT_EQ(counts.live_bytes, 0);
  EXPECT_THROW(SetAllocator(DeviceType::kCpu, {Allocate, nullptr, nullptr}), Error);
}

}  // namespace
}  // namespace flashinfer
