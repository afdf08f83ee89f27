// SPDX-License-Identifier: Apache-2.0
// Latent attention on a CUDA device.
#include "gpu_mla.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "cuda/device.h"
#include "flashinfer/attention/mla.h"
#include "gpu_tensor.h"

namespace flashinfer::bench {
namespace {

constexpr int64_t kDimCkv = 512;
constexpr int64_t kDimKpe = 64;

struct MlaDecode {
  int64_t num_requests;
  int64_t kv_len;
  int64_t num_heads;
  int64_t page_size = 64;
  DType dtype_kv = DType::kBF16;
};

/// Memory of any values; of 8 bits, two elements are the halves of one: any value takes as long.
class Cache {
 public:
  Cache(DType dtype, int64_t num_pages, int64_t page_size, int64_t dim, Device device)
      : memory_({num_pages, page_size, dim * SizeBytes(dtype) / 2}, device),
        view_(memory_.view().data(), dtype, {num_pages, page_size, dim}, device) {}
  const TensorView& view() const { return view_; }

 private:
  GpuTensor memory_;
  TensorView view_;
};

MlaProblem ProblemOf(const MlaDecode& d, Device device) {
  MlaProblem problem;
  problem.dtype_q = problem.dtype_out = DType::kBF16;
  problem.dtype_kv = d.dtype_kv;
  problem.num_heads = static_cast<int32_t>(d.num_heads);
  problem.page_size = static_cast<int32_t>(d.page_size);
  problem.sm_scale = 0.0722f;  // 1 / sqrt(128 + 64)
  problem.arch = cuda::ArchOf(device);
  return problem;
}

void MeasureDecode(const std::string& text, const MeasureMlaFunction& measure, Device device,
                   const MlaDecode& d) {
  const int64_t pages = (d.kv_len + d.page_size - 1) / d.page_size;
  const int64_t num_pages = d.num_requests * pages;
  const Cache ckv(d.dtype_kv, num_pages, d.page_size, kDimCkv, device);
  const Cache kpe(d.dtype_kv, num_pages, d.page_size, kDimKpe, device);
  const GpuTensor q_nope({d.num_requests, d.num_heads, kDimCkv}, device);
  const GpuTensor q_pe({d.num_requests, d.num_heads, kDimKpe}, device);
  const GpuTensor out({d.num_requests, d.num_heads, kDimCkv}, device);
  std::vector<int32_t> ids(static_cast<size_t>(num_pages));
  std::iota(ids.begin(), ids.end(), 0);
  std::shuffle(ids.begin(), ids.end(), std::mt19937(2));
  const GpuTensor indices(ids, device);
  std::vector<int32_t> qo_indptr(static_cast<size_t>(d.num_requests) + 1);
  std::iota(qo_indptr.begin(), qo_indptr.end(), 0);
  std::vector<int32_t> indptr = qo_indptr;
  for (int32_t& x : indptr) x *= static_cast<int32_t>(pages);
  const std::vector<int32_t> kv_len(static_cast<size_t>(d.num_requests),
                                    static_cast<int32_t>(d.kv_len));
  const auto view = [](const std::vector<int32_t>& x) {
    return TensorView(x.data(), DType::kI32, {static_cast<int64_t>(x.size())});
  };
  const MlaProblem problem = ProblemOf(d, device);
  Workspace workspace(device);
  BatchMla mla(workspace);
  mla.Plan(problem, view(qo_indptr), {view(indptr), indices, view(kv_len)});
  const auto tokens = static_cast<double>(d.num_requests * d.kv_len);
  const double flops = 2.0 * tokens * static_cast<double>(d.num_heads) * (2 * kDimCkv + kDimKpe);
  measure(
      text, tokens * static_cast<double>((kDimCkv + kDimKpe) * SizeBytes(d.dtype_kv)), flops,
      [&](Stream stream) {
        mla.Run(q_nope, q_pe, {ckv.view(), kpe.view()}, out, {}, stream);
      },
      BatchMla::Explain(problem).chosen()->candidate);
}

}  // namespace

void MeasureMla(const std::function<bool(const std::string&)>& wants,
                const MeasureMlaFunction& measure, Device device) {
  for (const MlaDecode& d : {MlaDecode{128, 4096, 16},
                             {128, 4096, 16, 1},
                             {1, 8192, 16},
                             {16, 8192, 16},
                             {64, 4096, 16},
                             {128, 4096, 16, 64, DType::kE4M3},
                             {16, 8192, 16, 64, DType::kE4M3},
                             {1, 8192, 128},
                             {128, 4096, 128},
                             {128, 4096, 128, 64, DType::kE4M3}}) {
    const std::string text =
        fmt::format("dtype=bf16 dtype_kv={} num_requests={} kv_len={} num_heads={}{}",
                    Name(d.dtype_kv), d.num_requests, d.kv_len, d.num_heads,
                    d.page_size == 64 ? "" : fmt::format(" page_size={}", d.page_size));
    if (wants(text)) MeasureDecode(text, measure, device, d);
  }
}

}  // namespace flashinfer::bench
