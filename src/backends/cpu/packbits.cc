// SPDX-License-Identifier: Apache-2.0
// Packing of bits on the CPU: what it takes, and how work is shared.
#include "backends/cpu/packbits.h"

#include <algorithm>

#include "backends/cpu/thread_pool.h"

namespace flashinfer::cpu {
namespace {

/// Elements of a piece: a multiple of 8, and enough to pay for waking a thread (2 µs against
/// 0.02 ns each).
constexpr int64_t kElementsPerPiece = 131072;

}  // namespace

bool AcceptsPackBits(const PackBitsProblem& problem, std::string* why) {
  return problem.arch == 0 || Refuse(why, "tensors are on a CUDA device");
}

void SharePackBits(const PackBitsParams& p, PackBytesFunction* pack) {
  if (p.indptr == nullptr) {
    const int64_t num_pieces = (p.num_elements + kElementsPerPiece - 1) / kElementsPerPiece;
    ParallelFor(num_pieces, 1, [&](int64_t begin, int64_t end) {
      const int64_t first = begin * kElementsPerPiece;
      const int64_t last = std::min(end * kElementsPerPiece, p.num_elements);
      pack(p.x + first, p.packed + first / 8, last - first, p.little);
    });
    return;
  }
  const int64_t mean_size = p.num_elements / std::max<int64_t>(1, p.num_segments);
  const int64_t grain = std::max<int64_t>(1, kElementsPerPiece / std::max<int64_t>(1, mean_size));
  ParallelFor(p.num_segments, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      pack(p.x + p.indptr[i], p.packed + p.packed_indptr[i], p.indptr[i + 1] - p.indptr[i],
           p.little);
    }
  });
}

}  // namespace flashinfer::cpu
