// SPDX-License-Identifier: Apache-2.0
// Operators on a CUDA device: gpu_benchmark [RESULTS [COMMIT [OP [CASE]]]] prints a table and
// appends JSON lines to RESULTS; of operator OP alone, and its cases that hold the text CASE.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <numeric>

#include "cuda/device.h"
#include "flashinfer/flashinfer.h"
#include "gpu_mla.h"
#include "gpu_prefill.h"
#include "gpu_quantize.h"
#include "gpu_sampling.h"
#include "gpu_tensor.h"
#include "gpu_timer.h"
#include "support/gguf_blocks.h"

namespace flashinfer::bench {
namespace {

constexpr Device kDevice{DeviceType::kCuda, 0};
/// What a decode kernel has been seen to read at on an H200, 2026-11-30.
constexpr double kReadGbPerS = 4370;
/// What cuBLASLt has been seen to multiply bf16 8192^3 at there, the same day.
constexpr double kMultiplyTflopPerS = 764;

class Report {
 public:
  Report(const char* path, std::string commit, std::string op, std::string text)
      : commit_(std::move(commit)), op_(std::move(op)), text_(std::move(text)) {
    if (path != nullptr) file_.open(path, std::ios::app);
    fmt::print("{}\n{:44} {:>9} {:>9} {:>7}\n", cuda::Properties(kDevice).name, "", "us", "GB/s",
               "floor");
  }

  void Measure(const std::string& op, const std::string& text, double bytes,
               const std::function<void(Stream)>& run, const std::string& backend = "cuda.simt") {
    if (!Wants(op, text)) return;
    const double us = timer_.MedianUs(run);
    const double gb_per_s = bytes / us * 1e-3;
    fmt::print("{:44} {:9.2f} {:9.0f} {:6.0f}%\n", op + " " + text, us, gb_per_s,
               100 * gb_per_s / kReadGbPerS);
    Write(op, text, backend, us, "gb_per_s", gb_per_s, gb_per_s / kReadGbPerS);
  }

  /// The same of what is bound by multiplying.
  void MeasureFlops(const std::string& op, const std::string& text, double flops,
                    const std::function<void(Stream)>& run, const std::string& backend) {
    if (!Wants(op, text)) return;
    const double us = timer_.MedianUs(run);
    const double tflop_per_s = flops / us * 1e-6;
    fmt::print("{:44} {:9.2f} {:7.0f} T {:6.0f}%\n", op + " " + text, us, tflop_per_s,
               100 * tflop_per_s / kMultiplyTflopPerS);
    Write(op, text, backend, us, "tflop_per_s", tflop_per_s, tflop_per_s / kMultiplyTflopPerS);
  }

  /// Whichever binds.
  void MeasureEither(const std::string& op, const std::string& text, double bytes, double flops,
                     const std::function<void(Stream)>& run, const std::string& backend) {
    if (bytes * kMultiplyTflopPerS * 1e3 >= flops * kReadGbPerS) {
      Measure(op, text, bytes, run, backend);
    } else {
      MeasureFlops(op, text, flops, run, backend);
    }
  }

  bool Wants(const std::string& op) const { return op_.empty() || op_ == op; }
  bool Wants(const std::string& op, const std::string& text) const {
    return Wants(op) && text.find(text_) != std::string::npos;
  }

 private:
  void Write(const std::string& op, const std::string& text, const std::string& backend, double us,
             const char* rate_name, double rate, double floor_share) {
    std::fflush(stdout);
    if (!file_.is_open()) return;
    const std::time_t now = std::time(nullptr);
    char date[16];
    std::strftime(date, sizeof(date), "%Y-%m-%d", std::gmtime(&now));
    file_ << fmt::format(
        "{{\"op\": \"{}\", \"case\": \"{}\", \"backend\": \"{}\", \"us\": {:.2f}, "
        "\"{}\": {:.1f}, \"floor_share\": {:.3f}, \"device\": \"{}\", \"commit\": \"{}\", "
        "\"date\": \"{}\"}}\n",
        op, text, backend, us, rate_name, rate, floor_share, cuda::Properties(kDevice).name,
        commit_, date);
    file_.flush();
  }

  GpuTimer timer_{kDevice};
  std::string commit_;
  std::string op_;
  std::string text_;
  std::ofstream file_;
};

void MeasureRows(Report& report, int64_t num_rows, int64_t size) {
  const std::string text = fmt::format("{}x{}", num_rows, size);
  const GpuTensor x({num_rows, size}, kDevice);
  const GpuTensor residual({num_rows, size}, kDevice);
  const GpuTensor weight({size}, kDevice);
  const GpuTensor out({num_rows, size}, kDevice);
  const GpuTensor gated({num_rows, 2 * size}, kDevice);
  const double bytes = 2.0 * static_cast<double>(num_rows * size);
  report.Measure("rmsnorm", text, 2 * bytes, [&](Stream s) { RmsNorm(x, weight, out, {}, s); });
  report.Measure("fused_add_rmsnorm", text, 4 * bytes,
                 [&](Stream s) { FusedAddRmsNorm(x, residual, weight, x, {}, s); });
  report.Measure("silu_and_mul", text, 3 * bytes, [&](Stream s) { SiluAndMul(gated, out, {}, s); });
}

void MeasureRope(Report& report, int64_t num_tokens) {
  const GpuTensor q({num_tokens, 32, 128}, kDevice);
  const GpuTensor k({num_tokens, 8, 128}, kDevice);
  std::vector<int32_t> ids(static_cast<size_t>(num_tokens));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 37 % 8192);
  const GpuTensor pos_ids(ids, kDevice);
  report.Measure("rope", fmt::format("{} tokens 32+8 heads of 128, in place", num_tokens),
                 4.0 * 40 * 128 * static_cast<double>(num_tokens),
                 [&](Stream s) { ApplyRope(q, k, pos_ids, q, k, {}, s); });
}

std::vector<int32_t> Shuffled(int64_t count) {
  std::vector<int32_t> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  std::shuffle(values.begin(), values.end(), std::mt19937(2));
  return values;
}

/// Keys and values of tokens, of requests of up to 512 each, and where they go in a paged cache.
class Append {
 public:
  Append(int64_t num_tokens, int64_t page_size)
      : k_({num_tokens, 8, 128}, kDevice),
        v_({num_tokens, 8, 128}, kDevice),
        k_cache_({NumPages(num_tokens, page_size), page_size, 8, 128}, kDevice),
        v_cache_({NumPages(num_tokens, page_size), page_size, 8, 128}, kDevice),
        batch_indices_(Numbers(num_tokens, [](int64_t i) { return i / kRequestTokens; }), kDevice),
        positions_(Numbers(num_tokens, [](int64_t i) { return i % kRequestTokens; }), kDevice),
        indptr_(Numbers(num_tokens / kRequestTokens + 2,
                        [&](int64_t i) { return i * kRequestTokens / page_size; }),
                kDevice),
        indices_(Shuffled(NumPages(num_tokens, page_size)), kDevice),
        last_(static_cast<size_t>(num_tokens / kRequestTokens + 1),
              static_cast<int32_t>(page_size)) {}

  void Run(Stream s) const {
    const TensorView last_len(last_.data(), DType::kI32, {static_cast<int64_t>(last_.size())});
    AppendPagedKvCache(k_, v_, batch_indices_, positions_, {k_cache_, v_cache_},
                       {indptr_, indices_, last_len}, {}, s);
  }

 private:
  static constexpr int64_t kRequestTokens = 512;

  static int64_t NumPages(int64_t num_tokens, int64_t page_size) {
    return (num_tokens / kRequestTokens + 1) * kRequestTokens / page_size;
  }
  template <class Value>
  static std::vector<int32_t> Numbers(int64_t count, const Value& value) {
    std::vector<int32_t> numbers;
    numbers.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<int32_t>(value(i)));
    return numbers;
  }

  GpuTensor k_;
  GpuTensor v_;
  GpuTensor k_cache_;
  GpuTensor v_cache_;
  GpuTensor batch_indices_;
  GpuTensor positions_;
  GpuTensor indptr_;
  GpuTensor indices_;
  std::vector<int32_t> last_;
};

void MeasureAppend(Report& report, int64_t page_size) {
  constexpr int64_t kTokens = 8192;
  const Append append(kTokens, page_size);
  report.Measure("append_paged_kv_cache",
                 fmt::format("{} tokens 8x128 page {}", kTokens, page_size),
                 8.0 * 8 * 128 * kTokens, [&](Stream s) { append.Run(s); });
}

/// What a layer of a model does before its attention, in one graph: each kernel starts while the
/// one before it ends.
void MeasureChain(Report& report, int64_t num_tokens) {
  const GpuTensor x({num_tokens, 4096}, kDevice);
  const GpuTensor weight({4096}, kDevice);
  const GpuTensor out({num_tokens, 4096}, kDevice);
  const GpuTensor q({num_tokens, 32, 128}, kDevice);
  const GpuTensor k({num_tokens, 8, 128}, kDevice);
  const GpuTensor pos_ids(std::vector<int32_t>(static_cast<size_t>(num_tokens), 77), kDevice);
  const Append append(num_tokens, 16);
  report.Measure("rmsnorm_rope_append",
                 fmt::format("{}x4096, 32+8 heads of 128, page 16", num_tokens),
                 (4.0 * 4096 + 4.0 * 40 * 128 + 8.0 * 8 * 128) * static_cast<double>(num_tokens),
                 [&](Stream s) {
                   RmsNorm(x, weight, out, {}, s);
                   ApplyRope(q, k, pos_ids, q, k, {}, s);
                   append.Run(s);
                 });
}

struct DecodeShape {
  int64_t num_requests;
  int64_t kv_len;
  int32_t num_qo_heads;
  int32_t num_kv_heads;
  int32_t head_dim;
  int32_t page_size;
  DType dtype_kv = DType::kBF16;
};

void MeasureDecode(Report& report, const DecodeShape& d) {
  const std::string text =
      fmt::format("B{} S{} {}/{}/{} page {}{}", d.num_requests, d.kv_len, d.num_qo_heads,
                  d.num_kv_heads, d.head_dim, d.page_size,
                  d.dtype_kv == DType::kBF16 ? "" : fmt::format(" {}", Name(d.dtype_kv)));
  if (!report.Wants("batch_decode", text)) return;
  const int64_t pages = (d.kv_len + d.page_size - 1) / d.page_size;
  const int64_t num_pages = d.num_requests * pages;
  // Of 8 bits, two elements are the halves of one: any value takes as long.
  const int64_t element = SizeBytes(d.dtype_kv);
  const int64_t stored = d.head_dim * element / 2;
  const GpuTensor k_memory({num_pages, d.page_size, d.num_kv_heads, stored}, kDevice);
  const GpuTensor v_memory({num_pages, d.page_size, d.num_kv_heads, stored}, kDevice);
  const auto as_cache = [&](const TensorView& memory) {
    return TensorView(memory.data(), d.dtype_kv,
                      {num_pages, d.page_size, d.num_kv_heads, d.head_dim}, kDevice);
  };
  const TensorView k = as_cache(k_memory);
  const TensorView v = as_cache(v_memory);
  const GpuTensor q({d.num_requests, d.num_qo_heads, d.head_dim}, kDevice);
  const GpuTensor out({d.num_requests, d.num_qo_heads, d.head_dim}, kDevice);
  const GpuTensor indices(Shuffled(d.num_requests * pages), kDevice);
  std::vector<int32_t> indptr;
  for (int64_t b = 0; b <= d.num_requests; ++b) indptr.push_back(static_cast<int32_t>(b * pages));
  const std::vector<int32_t> last(static_cast<size_t>(d.num_requests),
                                  static_cast<int32_t>((d.kv_len - 1) % d.page_size + 1));
  AttentionProblem problem;
  problem.dtype_kv = d.dtype_kv;
  problem.num_qo_heads = d.num_qo_heads;
  problem.num_kv_heads = d.num_kv_heads;
  problem.head_dim_qk = d.head_dim;
  problem.head_dim_vo = d.head_dim;
  problem.page_size = d.page_size;
  problem.arch = cuda::ArchOf(kDevice);
  Workspace workspace(kDevice);
  BatchDecode decode(workspace);
  decode.Plan(problem, {{indptr.data(), DType::kI32, {d.num_requests + 1}},
                        indices,
                        {last.data(), DType::kI32, {d.num_requests}}});
  report.Measure(
      "batch_decode", text,
      2.0 * static_cast<double>(element * d.num_requests * d.kv_len) * d.num_kv_heads * d.head_dim,
      [&](Stream s) {
        decode.Run(q, {k, v}, out, {}, {}, s);
      },
      BatchDecode::Explain(problem).chosen()->candidate);
}

/// What a batch's tables cost when the device plans them: of decode, and of prefill of a token
/// each.
void MeasureDevicePlans(Report& report, int64_t num_requests) {
  const std::string text = fmt::format("B{} on the device", num_requests);
  if (!report.Wants("decode_plan", text) && !report.Wants("prefill_plan", text)) return;
  constexpr int64_t kPageSize = 16;
  std::mt19937 rng(4);
  std::vector<int32_t> indptr{0};
  std::vector<int32_t> qo_indptr{0};
  for (int64_t b = 0; b < num_requests; ++b) {
    indptr.push_back(indptr.back() + std::uniform_int_distribution<int32_t>(1, 512)(rng));
    qo_indptr.push_back(qo_indptr.back() + 1);
  }
  const GpuTensor begins(indptr, kDevice);
  const GpuTensor rows(qo_indptr, kDevice);
  const GpuTensor indices(Shuffled(indptr.back()), kDevice);
  const GpuTensor last(std::vector<int32_t>(static_cast<size_t>(num_requests), kPageSize), kDevice);
  AttentionProblem problem;
  problem.num_qo_heads = 32;
  problem.num_kv_heads = 8;
  problem.head_dim_qk = problem.head_dim_vo = 128;
  problem.page_size = kPageSize;
  problem.arch = cuda::ArchOf(kDevice);
  const double bytes = 8.0 * static_cast<double>(num_requests);
  Workspace workspace(kDevice);
  BatchDecode decode(workspace);
  decode.PlanOnDevice(problem, {begins, indices, last});
  report.Measure("decode_plan", text, bytes, [&](Stream s) { decode.Replan(s); });
  Workspace prefill_workspace(kDevice);
  BatchPrefill prefill(prefill_workspace);
  prefill.PlanOnDevice(problem, rows, {begins, indices, last}, num_requests);
  report.Measure("prefill_plan", text, bytes, [&](Stream s) { prefill.Replan(s); });
}

struct LinearShape {
  WeightFormat format;
  int64_t rows;
  int64_t cols;
  int64_t num_tokens;
};

void MeasureLinear(Report& report, const LinearShape& l) {
  const std::string text =
      fmt::format("{} {}x{}, {} tokens", Name(l.format), l.rows, l.cols, l.num_tokens);
  if (!report.Wants("linear", text)) return;
  std::mt19937_64 rng(3);
  const std::vector<uint8_t> data = test::RandomWeight(l.format, l.rows, l.cols, rng);
  const PackedWeight weight({data.data(), l.format, l.rows, l.cols}, {.device = kDevice});
  const GpuTensor x({l.num_tokens, l.cols}, kDevice);
  const GpuTensor out({l.num_tokens, l.rows}, kDevice);
  const double bytes = static_cast<double>(data.size()) +
                       2.0 * static_cast<double>(l.num_tokens * (l.cols + l.rows));
  report.Measure("linear", text, bytes, [&](Stream s) { Linear(x, weight, out, {}, s); });
}

void MeasureLinears(Report& report) {
  // SmolLM2-135M: q/k/v, gate and up, down, vocabulary; Llama-8B: output, gate and up.
  for (int64_t num_tokens : {1, 4}) {
    for (const auto& [format, rows, cols] : {std::tuple{WeightFormat::kQ4_1, 960, 576},
                                             {WeightFormat::kQ4_1, 3072, 576},
                                             {WeightFormat::kQ4_1, 576, 1536},
                                             {WeightFormat::kQ8_0, 49152, 576},
                                             {WeightFormat::kQ4_K, 4096, 4096},
                                             {WeightFormat::kQ4_K, 28672, 4096}}) {
      MeasureLinear(report, {format, rows, cols, num_tokens});
    }
  }
  for (int64_t num_tokens : {8, 16, 64, 512}) {
    MeasureLinear(report, {WeightFormat::kQ4_K, 28672, 4096, num_tokens});
    MeasureLinear(report, {WeightFormat::kQ4_1, 3072, 576, num_tokens});
  }
  MeasureLinear(report, {WeightFormat::kQ8_0, 28672, 4096, 512});
  MeasureLinear(report, {WeightFormat::kQ6_K, 28672, 4096, 512});
  for (WeightFormat format : test::kWeightFormats) {
    if (format != WeightFormat::kF32) MeasureLinear(report, {format, 28672, 4096, 1});
  }
}

void MeasureAll(Report& report) {
  if (report.Wants("rmsnorm") || report.Wants("fused_add_rmsnorm") ||
      report.Wants("silu_and_mul")) {
    MeasureRows(report, 1, 4096);
    MeasureRows(report, 128, 8192);
    MeasureRows(report, 8192, 8192);
  }
  for (int64_t num_tokens : {1, 128, 8192}) MeasureRope(report, num_tokens);
  for (int64_t page_size : {1, 16, 64}) MeasureAppend(report, page_size);
  for (int64_t num_tokens : {1, 128}) MeasureChain(report, num_tokens);
  for (const DecodeShape& d : {DecodeShape{1, 1000, 64, 8, 128, 16},
                               {1, 8192, 64, 8, 128, 16},
                               {1, 32768, 64, 8, 128, 16},
                               {1, 131072, 64, 8, 128, 16},
                               {4, 8192, 64, 8, 128, 16},
                               {16, 8192, 64, 8, 128, 16},
                               {64, 8192, 64, 8, 128, 16},
                               {256, 1024, 32, 8, 128, 16},
                               {64, 8192, 32, 8, 128, 1},
                               {64, 8192, 64, 8, 64, 16},
                               {64, 8192, 64, 8, 128, 16, DType::kE4M3},
                               {64, 8192, 32, 8, 128, 16, DType::kE4M3},
                               {64, 8192, 16, 8, 128, 16, DType::kE4M3},
                               {64, 8192, 16, 8, 128, 16},
                               {64, 8192, 40, 8, 128, 16},
                               {64, 4096, 32, 32, 128, 16}}) {
    MeasureDecode(report, d);
  }
  for (int64_t num_requests : {1, 256, 4096}) MeasureDevicePlans(report, num_requests);
  MeasureLinears(report);
  MeasurePrefills(
      [&](const std::string& op, const std::string& text) { return report.Wants(op, text); },
      [&](auto&&... arguments) { report.MeasureFlops(arguments..., "cuda.mma"); }, kDevice);
  MeasureMla([&](const std::string& text) { return report.Wants("batch_mla", text); },
             [&](auto&&... arguments) { report.MeasureEither("batch_mla", arguments...); },
             kDevice);
  for (int64_t num_rows : {1, 128, 8192}) {
    MeasureQuantize([&](const std::string& op) { return report.Wants(op); },
                    [&](auto&&... arguments) { report.Measure(arguments...); }, kDevice, num_rows,
                    8192);
  }
  for (int64_t num_rows : {1, 64, 256}) {
    MeasureSampling([&](const std::string& op) { return report.Wants(op); },
                    [&](auto&&... arguments) { report.Measure(arguments...); }, kDevice, num_rows);
  }
}

}  // namespace
}  // namespace flashinfer::bench

int main(int argc, char** argv) {
  using namespace flashinfer::bench;
  std::string why;
  if (!flashinfer::cuda::Available(&why)) {
    fmt::print(stderr, "gpu_benchmark: {}\n", why);
    return 77;
  }
  Report report(argc > 1 ? argv[1] : nullptr, argc > 2 ? argv[2] : "unknown",
                argc > 3 ? argv[3] : "", argc > 4 ? argv[4] : "");
  MeasureAll(report);
  return 0;
}
