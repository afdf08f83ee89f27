// SPDX-License-Identifier: Apache-2.0
// The work of kernels that prefill in pieces: rows of requests times keys, long ones split along
// the keys, as tables for the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/kernel.h"
#include "kernels/attention/prefill_spec.h"
#include "ops/attention.h"
#include "plan/attention_plan.h"

namespace flashinfer::cuda {

/// Shared memory that a block may have, by architecture (CUDA C++ Programming Guide).
int32_t BlockSmemBytes(int32_t arch);

/// How a kernel's blocks share a batch.
struct PrefillGrid {
  int32_t rows_tile = 64;
  int32_t kv_tile = 64;
  int64_t num_tiles = 1;     ///< blocks of a piece
  size_t partial_bytes = 0;  ///< of a partial result, all tiles together
  int32_t fixed_kv_chunk = 0;
};

/// Partial results of a plan for any batch, on the largest device.
size_t PrefillPartialBytes(const PrefillGrid& grid);

/// Arrays that go to the device in one copy.
class Staging {
 public:
  void Clear() { bytes_.clear(); }
  /// The offset at which `values` begin.
  template <class T>
  size_t Add(const std::vector<T>& values) {
    return Add(values.data(), values.size() * sizeof(T));
  }
  size_t AddZeros(size_t size) { return Add(nullptr, size); }
  const std::vector<char>& bytes() const { return bytes_; }

 private:
  size_t Add(const void* data, size_t size);
  std::vector<char> bytes_;
};

class PrefillPieces {
 public:
  /// Shares the batch among the blocks of `kernel`, with as many splits as the workspace has room
  /// for. Throws kInvalidArgument for lengths that kernels cannot count.
  void Plan(const AttentionTables& tables, const AttentionBatch& batch, const PrefillGrid& grid,
            const Kernel& kernel, size_t workspace_bytes);

  const std::vector<kernels::PrefillRequest>& requests() const { return requests_; }
  const std::vector<kernels::PrefillPiece>& pieces() const { return pieces_; }
  /// Rows of the plan that are merged.
  size_t num_merges() const { return plan_.merges.size(); }
  /// Places for partial results: as many for any batch, so that addresses which a graph has
  /// recorded stay valid, but for fixed splits.
  int64_t num_partials() const { return num_partials_; }

 private:
  void ReadRequests(const AttentionTables& tables, int32_t group_size);
  void MakePieces();

  AttentionPlan plan_;
  std::vector<kernels::PrefillRequest> requests_;
  std::vector<kernels::PrefillPiece> pieces_;
  std::vector<int32_t> merge_of_;
  int64_t num_partials_ = 0;
};

}  // namespace flashinfer::cuda
