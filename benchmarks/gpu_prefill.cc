// SPDX-License-Identifier: Apache-2.0
// Prefill on a CUDA device.
#include "gpu_prefill.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "flashinfer/attention/prefill.h"
#include "gpu_tensor.h"

namespace flashinfer::bench {
namespace {

struct PrefillShape {
  int64_t num_requests;
  int64_t q_len;
  int64_t kv_len;
  int32_t num_qo_heads;
  int32_t num_kv_heads;
  int32_t head_dim;
  bool causal;
  int32_t page_size;
};

/// Two products of a query with each key that it sees.
double NumFlops(const PrefillShape& s) {
  const double unseen = s.causal ? static_cast<double>(s.q_len) / 2 : 0;
  return 4.0 * static_cast<double>(s.num_requests * s.q_len) *
         (static_cast<double>(s.kv_len) - unseen) * s.num_qo_heads * s.head_dim;
}

void MeasurePrefill(const WantsCaseFunction& wants, const MeasureFlopsFunction& measure,
                    Device device, const PrefillShape& s) {
  const std::string text =
      fmt::format("{} B{} {} of {} {}/{}/{} page {}", s.causal ? "causal" : "full", s.num_requests,
                  s.q_len, s.kv_len, s.num_qo_heads, s.num_kv_heads, s.head_dim, s.page_size);
  if (!wants("batch_prefill", text)) return;
  const int64_t pages = s.kv_len / s.page_size;
  const int64_t num_pages = s.num_requests * pages;
  const GpuTensor k({num_pages, s.page_size, s.num_kv_heads, s.head_dim}, device);
  const GpuTensor v({num_pages, s.page_size, s.num_kv_heads, s.head_dim}, device);
  const GpuTensor q({s.num_requests * s.q_len, s.num_qo_heads, s.head_dim}, device);
  const GpuTensor out({s.num_requests * s.q_len, s.num_qo_heads, s.head_dim}, device);
  std::vector<int32_t> ids(static_cast<size_t>(num_pages));
  std::iota(ids.begin(), ids.end(), 0);
  std::shuffle(ids.begin(), ids.end(), std::mt19937(2));
  const GpuTensor indices(ids, device);
  std::vector<int32_t> qo_indptr;
  std::vector<int32_t> indptr;
  for (int64_t b = 0; b <= s.num_requests; ++b) {
    qo_indptr.push_back(static_cast<int32_t>(b * s.q_len));
    indptr.push_back(static_cast<int32_t>(b * pages));
  }
  const std::vector<int32_t> last(static_cast<size_t>(s.num_requests), s.page_size);
  AttentionProblem problem;
  problem.num_qo_heads = s.num_qo_heads;
  problem.num_kv_heads = s.num_kv_heads;
  problem.head_dim_qk = problem.head_dim_vo = s.head_dim;
  problem.page_size = s.page_size;
  problem.mask = s.causal ? MaskMode::kCausal : MaskMode::kNone;
  const auto view = [](const std::vector<int32_t>& x) {
    return TensorView(x.data(), DType::kI32, {static_cast<int64_t>(x.size())});
  };
  Workspace workspace(device);
  BatchPrefill prefill(workspace);
  prefill.Plan(problem, view(qo_indptr), {view(indptr), indices, view(last)});
  measure("batch_prefill", text, NumFlops(s), [&](Stream stream) {
    prefill.Run(q, {k, v}, out, {}, {}, stream);
  });
}

}  // namespace

void MeasurePrefills(const WantsCaseFunction& wants, const MeasureFlopsFunction& measure,
                     Device device) {
  for (const PrefillShape& s : {PrefillShape{16, 512, 512, 32, 8, 128, true, 16},
                                {4, 4096, 4096, 32, 8, 128, true, 16},
                                {1, 16384, 16384, 32, 8, 128, true, 16},
                                {1, 16384, 16384, 32, 8, 128, true, 1},
                                {1, 8192, 8192, 32, 8, 128, false, 16},
                                {1, 16384, 16384, 64, 8, 64, true, 16},
                                {1, 16384, 16384, 16, 8, 256, true, 16},
                                {1, 512, 32768, 32, 8, 128, true, 16}}) {
    MeasurePrefill(wants, measure, device, s);
  }
}

}  // namespace flashinfer::bench
