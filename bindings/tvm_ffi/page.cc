// SPDX-License-Identifier: Apache-2.0
// include/flashinfer/page.h for other languages.
#include "flashinfer/page.h"

#include <string>

#include "bindings/tvm_ffi/call.h"

namespace flashinfer::bindings {
namespace {

// NOLINTNEXTLINE(readability-function-size): flat, as nothing is made at a call
void AppendPagedKvCache(const TensorView& k, const TensorView& v, const TensorView& batch_indices,
                        const TensorView& positions, const TensorView& k_cache,
                        const TensorView& v_cache, const TensorView& indices,
                        const TensorView& indptr, const TensorView& last_page_len, bool is_hnd) {
  const PagedKvCache cache{k_cache, v_cache, is_hnd ? KvLayout::kHND : KvLayout::kNHD};
  flashinfer::AppendPagedKvCache(k, v, batch_indices, positions, cache,
                                 {indptr, indices, last_page_len}, {}, StreamOf(k));
}

void AppendPagedMlaKvCache(const TensorView& ckv, const TensorView& kpe,
                           const TensorView& batch_indices, const TensorView& positions,
                           const TensorView& ckv_cache, const TensorView& kpe_cache,
                           const TensorView& indices, const TensorView& indptr,
                           const TensorView& last_page_len) {
  flashinfer::AppendPagedMlaKvCache(ckv, kpe, batch_indices, positions, ckv_cache, kpe_cache,
                                    {indptr, indices, last_page_len}, {}, StreamOf(ckv));
}

void GetBatchIndicesPositions(const TensorView& append_indptr, const TensorView& seq_lens,
                              const TensorView& batch_indices, const TensorView& positions) {
  flashinfer::GetBatchIndicesPositions(append_indptr, seq_lens, batch_indices, positions, Backend(),
                                       StreamOf(append_indptr));
}

void GetSeqLens(const TensorView& indptr, const TensorView& last_page_len, int64_t page_size,
                const TensorView& seq_lens) {
  flashinfer::GetSeqLens(indptr, last_page_len, static_cast<int32_t>(page_size), seq_lens,
                         Backend(), StreamOf(indptr));
}

}  // namespace
}  // namespace flashinfer::bindings

FLASHINFER_EXPORT(append_paged_kv_cache, flashinfer::bindings::AppendPagedKvCache)
FLASHINFER_EXPORT(append_paged_mla_kv_cache, flashinfer::bindings::AppendPagedMlaKvCache)
FLASHINFER_EXPORT(get_batch_indices_positions, flashinfer::bindings::GetBatchIndicesPositions)
FLASHINFER_EXPORT(get_seq_lens, flashinfer::bindings::GetSeqLens)
