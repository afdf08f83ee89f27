// SPDX-License-Identifier: Apache-2.0
// What the code of a kernel, compiled for the host, and the software device know of each other.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace flashinfer::software_device {

struct Index3 {
  unsigned x, y, z;
};

/// What lanes of a warp do together. Those that meet must do the same.
enum class Operation : int {
  kSyncWarp,
  kShuffle,
  kVote,
  kReduce,
  kMma,
  kLdmatrix,
  kStmatrix,
  kMovmatrix,
};

/// A lane's part of a meeting, which the others read.
struct Slot {
  uint32_t words[16];
};

/// A thread while it runs.
struct ThreadState {
  Index3 thread, block, block_dim, grid_dim;
  char* shared;          ///< dynamic shared memory of its block
  char* cluster_shared;  ///< that of the first block of its cluster
  uint32_t cluster_rank;
  uint32_t cluster_size;
};

/// Shared memory of a cluster's blocks lies this far apart: what launches ask for, and behind it
/// variables of a fixed size, each with room of its own.
constexpr size_t kSharedStride = 512 * 1024;
constexpr size_t kFixedSharedOffset = 256 * 1024;
constexpr size_t kFixedSharedBytes = 16 * 1024;

/// What the device does for its threads.
struct Services {
  ThreadState* const* current;
  /// Returns when all lanes of `mask` have come; their slots stay until Leave().
  const Slot* (*Meet)(uint32_t mask, Operation, const Slot& mine);
  void (*Leave)(const Slot* slots);
  void (*SyncBlock)();
  /// Barrier `index` of 1 to 15, of so many of the block's threads.
  void (*SyncThreads)(uint32_t index, uint32_t num_threads);
  void (*ClusterArrive)();
  void (*ClusterWait)();
  /// Returns after the threads that can run have run.
  void (*Yield)();
  /// In the background: done by WaitGroup(). Zeros where `from` is null.
  void (*CopyAsync)(void* to, const void* from, size_t bytes);
  void (*CommitGroup)();
  void (*WaitGroup)(int num_pending);
  /// Ends the launch with an error.
  void (*Trap)(const char* why);
};

/// What a compiled unit exports, as `flashinfer_image`.
struct Image {
  void (*bind)(const Services*);
  void (*run_thread)(void** params);
  size_t param_bytes;
};

}  // namespace flashinfer::software_device
