// SPDX-License-Identifier: Apache-2.0
// Top-k selection as the dispatcher sees it.
#pragma once

#include <cstdint>
#include <span>

#include "dispatch/candidate.h"
#include "flashinfer/topk.h"
#include "ops/vocabulary.h"

namespace flashinfer {

/// What becomes of an index: itself plus an offset of the row, or a place in the request's pages.
struct TopKIndexMap {
  RowValues<int32_t> offset;
  const int32_t* page_table = nullptr;  // null: no pages
  int64_t page_table_row_stride = 0;
  int64_t page_table_stride = 0;
  RowIndices row_to_request;
  int64_t page_size = 1;

  int64_t operator()(int64_t row, int64_t index) const {
    if (page_table == nullptr) return index + offset[row];
    const int64_t page = page_table[row_to_request[row] * page_table_row_stride +
                                    index / page_size * page_table_stride];
    return page * page_size + index % page_size;
  }
};

struct TopKParams {
  VocabularyRows rows;
  RowValues<int32_t> row_starts;
  RowValues<int32_t> lengths;  // with rows.vocab_size as value: all
  int64_t k;
  void* values;  // of the dtype of rows; null: not wanted
  int64_t values_stride;
  void* indices;
  int64_t indices_stride;
  bool indices_are_64_bit;
  TopKIndexMap map;
  bool sorted;
  TieBreak tie_break;
  Stream stream;
};

struct TopKOp {
  static constexpr std::string_view kName = "topk";
  using Problem = VocabularyProblem;
  using Entry = void (*)(const TopKParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

}  // namespace flashinfer
