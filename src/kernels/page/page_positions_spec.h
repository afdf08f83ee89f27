// SPDX-License-Identifier: Apache-2.0
// Requests and positions of a batch's tokens, and lengths of its requests, on CUDA cores: what
// changes the code, and what changes per call.
#pragma once

#include "core/field_list.h"
#include "kernels/portable.h"

namespace flashinfer::kernels {

inline constexpr int32_t kPagePositionsTokens = 0;   ///< batch_indices and positions
inline constexpr int32_t kPagePositionsLengths = 1;  ///< seq_lens from pages

/// A thread has a token, or a request. All contiguous.
struct PagePositionsParams {
  const int32_t* indptr;  // [num_requests + 1]: tokens, or pages
  const int32_t* lens;    // [num_requests]: seq_lens, or last_page_len
  int32_t* out;           // [num_tokens] batch_indices, or [num_requests] seq_lens
  int32_t* positions;     // [num_tokens]
  int64_t num_out;
  int32_t num_requests;
  int32_t page_size;
};

/// Every field changes the machine code.
struct PagePositionsSpec {
  using Params = PagePositionsParams;
  static constexpr const char* kName = "page_positions.simt";
  static constexpr const char* kType = "PagePositionsSpec";
  static constexpr const char* kHeader = "kernels/page/page_positions_simt_sm75.cuh";
  static constexpr const char* kNamespace = "page_positions_simt";
  static constexpr int kMinArch = 75;

  int32_t of = kPagePositionsTokens;  ///< one of the kPagePositions constants

  friend constexpr bool operator==(const PagePositionsSpec&, const PagePositionsSpec&) = default;
};

template <FieldsOf<PagePositionsSpec> Self, class Visit>
constexpr void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(of)
}

constexpr int32_t NumThreads(const PagePositionsSpec&) { return 256; }
constexpr int32_t SmemBytes(const PagePositionsSpec&) { return 0; }

}  // namespace flashinfer::kernels
