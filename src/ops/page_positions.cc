// SPDX-License-Identifier: Apache-2.0
// Batch indices, positions and sequence lengths: check, choose, run.
#include "ops/page_positions.h"

#include <limits>

#include "core/check.h"
#include "core/log.h"
#include "core/text.h"
#include "cuda/device.h"
#include "dispatch/choose.h"

namespace flashinfer {
namespace {

void CheckInts(std::string_view name, const TensorView& tensor, int64_t size, Device device) {
  CheckTensor(name, tensor).On(device).Is(DType::kI32).Shape({size}).Contiguous();
}

bool IsOnHost(const TensorView& tensor) { return tensor.device().type == DeviceType::kCpu; }

/// The requests of an indptr, which is read where it is in host memory.
int64_t NumRequests(std::string_view name, const TensorView& indptr) {
  if (indptr.defined() && !IsOnHost(indptr)) {
    CheckTensor(name, indptr).Is(DType::kI32).Rank(1).Contiguous();
    FLASHINFER_CHECK(indptr.shape(0) > 0, "{}: is empty, expected num_requests + 1 elements", name);
  } else {
    CheckIndptr(name, indptr);
    CheckTensor(name, indptr).Contiguous();
  }
  const int64_t num_requests = indptr.shape(0) - 1;
  FLASHINFER_CHECK(num_requests <= std::numeric_limits<int32_t>::max(),
                   "{}: has {} requests, accepted: up to 2^31 - 1", name, num_requests);
  return num_requests;
}

/// Values in host memory.
void CheckNewTokens(const int32_t* indptr, const int32_t* lens, int64_t num_requests,
                    int64_t num_tokens) {
  for (int64_t b = 0; b < num_requests; ++b) {
    const int32_t count = indptr[b + 1] - indptr[b];
    FLASHINFER_CHECK(lens[b] >= count, "seq_lens[{}]: is {}, expected at least its {} new tokens",
                     b, lens[b], count);
  }
  FLASHINFER_CHECK(indptr[num_requests] <= num_tokens,
                   "append_indptr[{}]: is {}, batch_indices has room for {} tokens", num_requests,
                   indptr[num_requests], num_tokens);
}

/// Values in host memory.
void CheckLastPages(const int32_t* indptr, const int32_t* last, int64_t num_requests,
                    int32_t page_size) {
  for (int64_t b = 0; b < num_requests; ++b) {
    const int64_t num_pages = indptr[b + 1] - indptr[b];
    if (num_pages == 0) continue;
    FLASHINFER_CHECK(last[b] >= 1 && last[b] <= page_size,
                     "last_page_len[{}]: is {}, accepted: 1 to page_size, {}", b, last[b],
                     page_size);
    FLASHINFER_CHECK(num_pages * page_size <= std::numeric_limits<int32_t>::max(),
                     "indptr[{}]: {} pages of {} tokens are too many for i32", b + 1, num_pages,
                     page_size);
  }
}

}  // namespace

void GetBatchIndicesPositions(const TensorView& append_indptr, const TensorView& seq_lens,
                              const TensorView& batch_indices, const TensorView& positions,
                              Backend backend, Stream stream) {
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("get_batch_indices_positions", {{"append_indptr", append_indptr},
                                            {"seq_lens", seq_lens},
                                            {"batch_indices", batch_indices},
                                            {"positions", positions}});
  }
  const int64_t num_requests = NumRequests("append_indptr", append_indptr);
  const Device device = append_indptr.device();
  CheckInts("seq_lens", seq_lens, num_requests, device);
  CheckInts("batch_indices", batch_indices, -1, device);
  const int64_t num_tokens = batch_indices.shape(0);
  CheckInts("positions", positions, num_tokens, device);
  const auto* indptr = append_indptr.data_as<const int32_t>();
  const auto* lens = seq_lens.data_as<const int32_t>();
  if (IsOnHost(append_indptr)) CheckNewTokens(indptr, lens, num_requests, num_tokens);
  Choose<BatchIndicesPositionsOp>({.arch = cuda::ArchOf(device)},
                                  backend)({.append_indptr = indptr,
                                            .seq_lens = lens,
                                            .batch_indices = batch_indices.data_as<int32_t>(),
                                            .positions = positions.data_as<int32_t>(),
                                            .num_requests = num_requests,
                                            .num_tokens = num_tokens,
                                            .stream = cuda::StreamOn(device, stream)});
  if (LogLevel() >= 5) [[unlikely]] {
    LogReturn("get_batch_indices_positions",
              {{"batch_indices", batch_indices}, {"positions", positions}});
  }
}

void GetSeqLens(const TensorView& indptr, const TensorView& last_page_len, int32_t page_size,
                const TensorView& seq_lens, Backend backend, Stream stream) {
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("get_seq_lens", {{"indptr", indptr},
                             {"last_page_len", last_page_len},
                             {"page_size", ValueText(page_size)},
                             {"seq_lens", seq_lens}});
  }
  FLASHINFER_CHECK(page_size > 0, "page_size: is {}, expected 1 or more", page_size);
  const int64_t num_requests = NumRequests("indptr", indptr);
  const Device device = indptr.device();
  CheckInts("last_page_len", last_page_len, num_requests, device);
  CheckInts("seq_lens", seq_lens, num_requests, device);
  const auto* begin = indptr.data_as<const int32_t>();
  const auto* last = last_page_len.data_as<const int32_t>();
  if (IsOnHost(indptr)) CheckLastPages(begin, last, num_requests, page_size);
  Choose<SeqLensOp>({.arch = cuda::ArchOf(device)},
                    backend)({.indptr = begin,
                              .last_page_len = last,
                              .seq_lens = seq_lens.data_as<int32_t>(),
                              .num_requests = num_requests,
                              .page_size = page_size,
                              .stream = cuda::StreamOn(device, stream)});
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("get_seq_lens", {{"seq_lens", seq_lens}});
}

}  // namespace flashinfer
