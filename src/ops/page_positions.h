// SPDX-License-Identifier: Apache-2.0
// Batch indices, positions and sequence lengths as the dispatcher sees them.
#pragma once

#include <cstdint>
#include <span>

#include "core/field_list.h"
#include "dispatch/candidate.h"
#include "flashinfer/page.h"

namespace flashinfer {

struct PagePositionsProblem {
  int32_t arch = 0;  ///< 0: host memory; 90: a CUDA device of compute capability 9.0
};

template <FieldsOf<PagePositionsProblem> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(arch)
}

/// All contiguous.
struct BatchIndicesPositionsParams {
  const int32_t* append_indptr;  // [num_requests + 1]
  const int32_t* seq_lens;       // [num_requests]
  int32_t* batch_indices;        // [num_tokens]
  int32_t* positions;            // [num_tokens]
  int64_t num_requests;
  int64_t num_tokens;
  Stream stream;
};

struct BatchIndicesPositionsOp {
  static constexpr std::string_view kName = "get_batch_indices_positions";
  using Problem = PagePositionsProblem;
  using Entry = void (*)(const BatchIndicesPositionsParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

/// All contiguous.
struct SeqLensParams {
  const int32_t* indptr;         // [num_requests + 1]
  const int32_t* last_page_len;  // [num_requests]
  int32_t* seq_lens;             // [num_requests]
  int64_t num_requests;
  int32_t page_size;
  Stream stream;
};

struct SeqLensOp {
  static constexpr std::string_view kName = "get_seq_lens";
  using Problem = PagePositionsProblem;
  using Entry = void (*)(const SeqLensParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

}  // namespace flashinfer
