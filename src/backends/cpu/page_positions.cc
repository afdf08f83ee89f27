// SPDX-License-Identifier: Apache-2.0
// Batch indices, positions and sequence lengths on the CPU.
#include "backends/cpu/page_positions.h"

#include <algorithm>

namespace flashinfer::cpu {

bool AcceptsPagePositions(const PagePositionsProblem& problem, std::string* why) {
  return problem.arch == 0 || Refuse(why, "tensors are on a CUDA device");
}

void RunBatchIndicesPositions(const BatchIndicesPositionsParams& p) {
  for (int64_t b = 0; b < p.num_requests; ++b) {
    const int32_t begin = p.append_indptr[b];
    const int32_t end = p.append_indptr[b + 1];
    for (int32_t i = begin; i < end; ++i) {
      p.batch_indices[i] = static_cast<int32_t>(b);
      p.positions[i] = p.seq_lens[b] - end + i;
    }
  }
  const int64_t end = p.append_indptr[p.num_requests];
  std::fill(p.batch_indices + end, p.batch_indices + p.num_tokens, -1);
  std::fill(p.positions + end, p.positions + p.num_tokens, -1);
}

void RunSeqLens(const SeqLensParams& p) {
  for (int64_t b = 0; b < p.num_requests; ++b) {
    const int32_t num_pages = p.indptr[b + 1] - p.indptr[b];
    p.seq_lens[b] = num_pages == 0 ? 0 : (num_pages - 1) * p.page_size + p.last_page_len[b];
  }
}

}  // namespace flashinfer::cpu
