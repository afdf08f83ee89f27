// SPDX-License-Identifier: Apache-2.0
// Packing of bits as the dispatcher sees it: problem, parameters, candidates.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/field_list.h"
#include "dispatch/candidate.h"
#include "flashinfer/quantize.h"

namespace flashinfer {

/// What decides who can run it.
struct PackBitsProblem {
  bool little = false;
  bool has_segments = false;
  int32_t arch = 0;  ///< 0: host memory; 90: a CUDA device of compute capability 9.0
};

template <FieldsOf<PackBitsProblem> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(little)
  FLASHINFER_NAMED(has_segments)
  FLASHINFER_NAMED(arch)
}

/// One call: segment i is elements indptr[i] to indptr[i + 1], from byte packed_indptr[i] on.
struct PackBitsParams {
  const uint8_t* x;
  uint8_t* packed;
  int64_t num_elements;
  const int32_t* indptr;  // host memory; null: one segment of all elements
  const int32_t* packed_indptr;
  int64_t num_segments;
  bool little;
  Stream stream;
};

struct PackBitsOp {
  static constexpr std::string_view kName = "packbits";
  using Problem = PackBitsProblem;
  using Entry = void (*)(const PackBitsParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

}  // namespace flashinfer
