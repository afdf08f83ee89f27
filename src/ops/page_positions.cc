// SPDX-License-Identifier: Apache-2.0
// Batch indices, positions and sequence lengths: check, choose, run.
#include "ops/page_positions.h"

#include <limits>

#include "core/check.h"
#include "core/log.h"
#include "core/text.h"
#include "dispatch/choose.h"

namespace flashinfer {
namespace {

void CheckInts(std::string_view name, const TensorView& tensor, int64_t size) {
  CheckTensor(name, tensor).On({}).Is(DType::kI32).Shape({size}).Contiguous();
}

}  // namespace

void GetBatchIndicesPositions(const TensorView& append_indptr, const TensorView& seq_lens,
                              const TensorView& batch_indices, const TensorView& positions,
                              Backend backend, Stream) {
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("get_batch_indices_positions", {{"append_indptr", append_indptr},
                                            {"seq_lens", seq_lens},
                                            {"batch_indices", batch_indices},
                                            {"positions", positions}});
  }
  CheckIndptr("append_indptr", append_indptr);
  CheckTensor("append_indptr", append_indptr).Contiguous();
  const int64_t num_requests = append_indptr.shape(0) - 1;
  CheckInts("seq_lens", seq_lens, num_requests);
  CheckInts("batch_indices", batch_indices, -1);
  const int64_t num_tokens = batch_indices.shape(0);
  CheckInts("positions", positions, num_tokens);
  const auto* indptr = append_indptr.data_as<const int32_t>();
  const auto* lens = seq_lens.data_as<const int32_t>();
  for (int64_t b = 0; b < num_requests; ++b) {
    const int32_t count = indptr[b + 1] - indptr[b];
    FLASHINFER_CHECK(lens[b] >= count, "seq_lens[{}]: is {}, expected at least its {} new tokens",
                     b, lens[b], count);
  }
  FLASHINFER_CHECK(indptr[num_requests] <= num_tokens,
                   "append_indptr[{}]: is {}, batch_indices has room for {} tokens", num_requests,
                   indptr[num_requests], num_tokens);
  Choose<BatchIndicesPositionsOp>({}, backend)({.append_indptr = indptr,
                                                .seq_lens = lens,
                                                .batch_indices = batch_indices.data_as<int32_t>(),
                                                .positions = positions.data_as<int32_t>(),
                                                .num_requests = num_requests,
                                                .num_tokens = num_tokens});
  if (LogLevel() >= 5) [[unlikely]] {
    LogReturn("get_batch_indices_positions",
              {{"batch_indices", batch_indices}, {"positions", positions}});
  }
}

void GetSeqLens(const TensorView& indptr, const TensorView& last_page_len, int32_t page_size,
                const TensorView& seq_lens, Backend backend, Stream) {
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("get_seq_lens", {{"indptr", indptr},
                             {"last_page_len", last_page_len},
                             {"page_size", ValueText(page_size)},
                             {"seq_lens", seq_lens}});
  }
  FLASHINFER_CHECK(page_size > 0, "page_size: is {}, expected 1 or more", page_size);
  CheckIndptr("indptr", indptr);
  CheckTensor("indptr", indptr).Contiguous();
  const int64_t num_requests = indptr.shape(0) - 1;
  CheckInts("last_page_len", last_page_len, num_requests);
  CheckInts("seq_lens", seq_lens, num_requests);
  const auto* begin = indptr.data_as<const int32_t>();
  const auto* last = last_page_len.data_as<const int32_t>();
  for (int64_t b = 0; b < num_requests; ++b) {
    const int64_t num_pages = begin[b + 1] - begin[b];
    if (num_pages == 0) continue;
    FLASHINFER_CHECK(last[b] >= 1 && last[b] <= page_size,
                     "last_page_len[{}]: is {}, accepted: 1 to page_size, {}", b, last[b],
                     page_size);
    FLASHINFER_CHECK(num_pages * page_size <= std::numeric_limits<int32_t>::max(),
                     "indptr[{}]: {} pages of {} tokens are too many for i32", b + 1, num_pages,
                     page_size);
  }
  Choose<SeqLensOp>({}, backend)({.indptr = begin,
                                  .last_page_len = last,
                                  .seq_lens = seq_lens.data_as<int32_t>(),
                                  .num_requests = num_requests,
                                  .page_size = page_size});
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("get_seq_lens", {{"seq_lens", seq_lens}});
}

}  // namespace flashinfer
