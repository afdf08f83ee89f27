// SPDX-License-Identifier: Apache-2.0
// Top-k selection: check, choose, run.
#include "ops/topk.h"

#include <limits>

#include "core/check.h"
#include "core/log.h"
#include "cuda/device.h"
#include "dispatch/choose.h"
#include "ops/per_row.h"

namespace flashinfer {

namespace {

struct Arguments {
  const TensorView& input;
  const TensorView& values;
  const TensorView& indices;
  TopKIndexMap map;
  int64_t max_length = std::numeric_limits<int64_t>::max();  ///< of a row, by its pages
};

bool TakesHighest(const TopKOptions& options) {
  return options.tie_break == TieBreak::kHighestIndex;
}

/// i32 for each row, in range, and a row's columns within the input and its pages.
void CheckRanges(const Arguments& a, const TopKOptions& options, TopKParams& params) {
  const int64_t num_rows = a.input.shape(0);
  const int64_t num_cols = a.input.shape(1);
  const Accepted<int32_t> columns{DType::kI32, 0, static_cast<int32_t>(num_cols),
                                  "0 to the columns of input"};
  if (options.row_starts.defined()) {
    params.row_starts =
        CheckPerRow<int32_t>("row_starts", options.row_starts, num_rows, columns, a.input.device());
  }
  params.lengths.value = static_cast<int32_t>(num_cols);
  if (options.lengths.defined()) {
    params.lengths =
        CheckPerRow<int32_t>("lengths", options.lengths, num_rows, columns, a.input.device());
  }
  if (a.input.device().type != DeviceType::kCpu) return;
  for (int64_t row = 0; row < num_rows; ++row) {
    const int64_t length = params.lengths[row];
    const int64_t end = params.row_starts[row] + length;
    FLASHINFER_CHECK(!options.lengths.defined() || end <= num_cols,
                     "lengths: row {} ends at column {}, input has {}", row, end, num_cols);
    FLASHINFER_CHECK(length <= a.max_length, "lengths: row {} is {}, page_table has room for {}",
                     row, length, a.max_length);
  }
}

void Select(const Arguments& a, const TopKOptions& options, Stream stream) {
  const TensorView& input = a.input;
  TopKParams params{.rows = CheckRows("input", input, true),
                    .row_starts = {},
                    .lengths = {},
                    .k = a.indices.shape(1),
                    .values = a.values.data(),
                    .values_stride = a.values.defined() ? a.values.stride(0) : 0,
                    .indices = a.indices.data(),
                    .indices_stride = a.indices.stride(0),
                    .indices_are_64_bit = a.indices.dtype() == DType::kI64,
                    .map = a.map,
                    .sorted = options.sorted,
                    .tie_break = options.tie_break,
                    .stream = cuda::StreamOn(input.device(), stream)};
  CheckRanges(a, options, params);
  Choose<TopKOp>({input.dtype(), input.shape(1), cuda::ArchOf(input.device())},
                 options.backend)(params);
}

void CheckPlaces(const TensorView& input, const TensorView& out) {
  CheckTensor("input", input).Rank(2);
  CheckTensor("out", out)
      .On(input.device())
      .Is(DType::kI32)
      .Shape({input.shape(0), -1})
      .LastDimDense();
  CheckTensor("out", out).NoOverlap().Apart("input", input);
}

}  // namespace

void TopK(const TensorView& input, const TensorView& values, const TensorView& indices,
          const TopKOptions& options, Stream stream) {
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("top_k", {{"input", input},
                      {"values", values},
                      {"indices", indices},
                      {"sorted", ValueText(options.sorted)},
                      {"highest_index", ValueText(TakesHighest(options))},
                      {"row_starts", options.row_starts},
                      {"lengths", options.lengths}});
  }
  CheckTensor("input", input).Rank(2);
  CheckTensor("indices", indices).On(input.device()).IsOneOf({DType::kI32, DType::kI64});
  CheckTensor("indices", indices).Shape({input.shape(0), -1}).LastDimDense().NoOverlap();
  CheckTensor("indices", indices).Apart("input", input);
  if (values.defined()) {
    CheckTensor("values", values).On(input.device()).Is(input.dtype()).Shape(indices.shape());
    CheckTensor("values", values).LastDimDense().NoOverlap();
    CheckTensor("values", values).Apart("input", input).Apart("indices", indices);
  }
  Select({.input = input, .values = values, .indices = indices, .map = {}}, options, stream);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("top_k", {{"values", values}, {"indices", indices}});
}

void TopKPageTableTransform(const TensorView& input, const TopKPages& pages, const TensorView& out,
                            const TopKOptions& options, Stream stream) {
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("top_k_page_table_transform", {{"input", input},
                                           {"page_table", pages.page_table},
                                           {"row_to_request", pages.row_to_request},
                                           {"page_size", ValueText(pages.page_size)},
                                           {"out", out},
                                           {"sorted", ValueText(options.sorted)},
                                           {"highest_index", ValueText(TakesHighest(options))},
                                           {"row_starts", options.row_starts},
                                           {"lengths", options.lengths}});
  }
  CheckPlaces(input, out);
  const TensorView& table = pages.page_table;
  CheckTensor("page_table", table).On(input.device()).Is(DType::kI32).Rank(2);
  FLASHINFER_CHECK(pages.page_size >= 1, "page_size: is {}, accepted: 1 or more", pages.page_size);
  RowIndices requests;
  if (pages.row_to_request.defined()) {
    requests = CheckIndices("row_to_request", pages.row_to_request, table);
    CheckTensor("row_to_request", pages.row_to_request).Shape({input.shape(0)});
  } else {
    CheckTensor("page_table", table).Shape({input.shape(0), -1});
  }
  Select({.input = input,
          .values = TensorView(),
          .indices = out,
          .map = {.offset = {},
                  .page_table = table.data_as<const int32_t>(),
                  .page_table_row_stride = table.stride(0),
                  .page_table_stride = table.stride(1),
                  .row_to_request = requests,
                  .page_size = pages.page_size},
          .max_length = table.shape(1) * pages.page_size},
         options, stream);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("top_k_page_table_transform", {{"out", out}});
}

void TopKRaggedTransform(const TensorView& input, const TensorView& offsets, const TensorView& out,
                         const TopKOptions& options, Stream stream) {
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("top_k_ragged_transform", {{"input", input},
                                       {"offsets", offsets},
                                       {"out", out},
                                       {"sorted", ValueText(options.sorted)},
                                       {"highest_index", ValueText(TakesHighest(options))},
                                       {"row_starts", options.row_starts},
                                       {"lengths", options.lengths}});
  }
  CheckPlaces(input, out);
  TopKIndexMap map;
  constexpr Accepted<int32_t> kAny{DType::kI32, std::numeric_limits<int32_t>::min(),
                                   std::numeric_limits<int32_t>::max(), "any"};
  map.offset = CheckPerRow<int32_t>("offsets", offsets, input.shape(0), kAny, input.device());
  Select({.input = input, .values = TensorView(), .indices = out, .map = map}, options, stream);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("top_k_ragged_transform", {{"out", out}});
}

}  // namespace flashinfer
