// SPDX-License-Identifier: Apache-2.0
// What calls on a CUDA device cost the host, of it the driver's launch, and what the first calls of
// a process cost. Arguments: a file for JSON lines, the commit, and, to measure first calls alone,
// where their kernels come from.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <numeric>

#include "cuda/device.h"
#include "cuda/memory.h"
#include "flashinfer/flashinfer.h"
#include "gpu_tensor.h"

namespace flashinfer::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr Device kDevice{DeviceType::kCuda, 0};

double Microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

/// Time spent in cuLaunchKernelEx, by standing in for it in the table of the driver's functions.
Clock::duration launch_time{};
decltype(cuda::Driver::cuLaunchKernelEx) real_launch = nullptr;

cuda::Result TimedLaunch(const cuda::LaunchConfig* config, cuda::FunctionHandle function,
                         void** params, void** extra) {
  const Clock::time_point start = Clock::now();
  const cuda::Result result = real_launch(config, function, params, extra);
  launch_time += Clock::now() - start;
  return result;
}

void StandInForLaunch() {
  auto& driver = const_cast<cuda::Driver&>(cuda::GetDriver());
  real_launch = driver.cuLaunchKernelEx;
  driver.cuLaunchKernelEx = TimedLaunch;
}

class Report {
 public:
  Report(const char* path, const char* commit) : commit_(commit) {
    if (path != nullptr) file_.open(path, std::ios::app);
  }

  void Write(const std::string& name, const std::string& fields, double us) {
    fmt::print("{:52} {:10.2f} us\n", name, us);
    std::fflush(stdout);
    if (!file_.is_open()) return;
    const std::time_t now = std::time(nullptr);
    char date[16];
    std::strftime(date, sizeof(date), "%Y-%m-%d", std::gmtime(&now));
    file_ << fmt::format(
        "{{\"op\": \"host\", \"case\": \"{}\", \"host_us\": {:.3f}{}, \"device\": \"{}\", "
        "\"commit\": \"{}\", \"date\": \"{}\"}}\n",
        name, us, fields, cuda::Properties(kDevice).name, commit_, date);
    file_.flush();
  }

  /// The best of many rounds of calls that no full queue delays.
  void MeasureCall(const std::string& name, const std::function<void()>& run) {
    constexpr int kRounds = 200;
    constexpr int kCalls = 20;
    double best = 1e9;
    double launch = 0;
    for (int round = 0; round < kRounds; ++round) {
      cuda::Synchronize({kDevice});
      launch_time = {};
      const Clock::time_point start = Clock::now();
      for (int i = 0; i < kCalls; ++i) run();
      const double us = Microseconds(Clock::now() - start) / kCalls;
      if (us >= best) continue;
      best = us;
      launch = Microseconds(launch_time) / kCalls;
    }
    cuda::Synchronize({kDevice});
    Write(name, fmt::format(", \"driver_us\": {:.3f}", launch), best);
    if (launch > 0) Write(name + ", over the driver's launch", "", best - launch);
  }

 private:
  std::string commit_;
  std::ofstream file_;
};

/// Pages of equal requests, 16 tokens each, in the order of requests.
struct Pages {
  Pages(int64_t num_requests, int64_t pages_per_request)
      : indptr(static_cast<size_t>(num_requests + 1)),
        last_len(static_cast<size_t>(num_requests), 16),
        indices(Numbers(num_requests * pages_per_request), kDevice) {
    for (size_t b = 0; b < indptr.size(); ++b) {
      indptr[b] = static_cast<int32_t>(static_cast<int64_t>(b) * pages_per_request);
    }
  }
  static std::vector<int32_t> Numbers(int64_t count) {
    std::vector<int32_t> numbers(static_cast<size_t>(count));
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
  }
  PageTable table() const { return {ViewOf(indptr), indices, ViewOf(last_len)}; }
  static TensorView ViewOf(const std::vector<int32_t>& numbers) {
    return {numbers.data(), DType::kI32, {static_cast<int64_t>(numbers.size())}};
  }

  std::vector<int32_t> indptr;
  std::vector<int32_t> last_len;
  GpuTensor indices;
};

AttentionProblem ProblemOfLlama() {
  AttentionProblem problem;
  problem.num_qo_heads = 32;
  problem.num_kv_heads = 8;
  problem.head_dim_qk = 128;
  problem.head_dim_vo = 128;
  problem.page_size = 16;
  problem.arch = cuda::ArchOf(kDevice);
  return problem;
}

/// Decode of 256 requests of 64 tokens.
class Decode {
 public:
  void Plan() { decode_.Plan(ProblemOfLlama(), pages_.table()); }
  void Run() const { decode_.Run(q_, {k_, v_}, out_); }

 private:
  static constexpr int64_t kRequests = 256;
  static constexpr int64_t kPages = 4;
  Pages pages_{kRequests, kPages};
  GpuTensor k_{{kRequests * kPages, 16, 8, 128}, kDevice};
  GpuTensor v_{{kRequests * kPages, 16, 8, 128}, kDevice};
  GpuTensor q_{{kRequests, 32, 128}, kDevice};
  GpuTensor out_{{kRequests, 32, 128}, kDevice};
  Workspace workspace_{kDevice};
  BatchDecode decode_{workspace_};
};

/// Prefill of 16 requests, 16 tokens of 64 each.
class Prefill {
 public:
  void Plan() {
    AttentionProblem problem = ProblemOfLlama();
    problem.mask = MaskMode::kCausal;
    prefill_.Plan(problem, Pages::ViewOf(qo_indptr_.indptr), pages_.table());
  }
  void Run() const { prefill_.Run(q_, {k_, v_}, out_); }

 private:
  static constexpr int64_t kRequests = 16;
  Pages pages_{kRequests, 4};
  Pages qo_indptr_{kRequests, 16};
  GpuTensor k_{{kRequests * 4, 16, 8, 128}, kDevice};
  GpuTensor v_{{kRequests * 4, 16, 8, 128}, kDevice};
  GpuTensor q_{{kRequests * 16, 32, 128}, kDevice};
  GpuTensor out_{{kRequests * 16, 32, 128}, kDevice};
  Workspace workspace_{kDevice};
  BatchPrefill prefill_{workspace_};
};

/// Latent attention: decode of 64 requests of 64 tokens.
class Mla {
 public:
  void Plan() {
    MlaProblem problem;
    problem.num_heads = 16;
    problem.page_size = 16;
    problem.sm_scale = 0.1f;
    mla_.Plan(problem, Pages::ViewOf(qo_indptr_.indptr),
              {Pages::ViewOf(pages_.indptr), pages_.indices, Pages::ViewOf(kv_len_)});
  }
  void Run() const { mla_.Run(q_nope_, q_pe_, {.ckv = ckv_, .kpe = kpe_}, out_); }

 private:
  static constexpr int64_t kRequests = 64;
  Pages pages_{kRequests, 4};
  Pages qo_indptr_{kRequests, 1};
  std::vector<int32_t> kv_len_ = std::vector<int32_t>(kRequests, 64);
  GpuTensor ckv_{{kRequests * 4, 16, 512}, kDevice};
  GpuTensor kpe_{{kRequests * 4, 16, 64}, kDevice};
  GpuTensor q_nope_{{kRequests, 16, 512}, kDevice};
  GpuTensor q_pe_{{kRequests, 16, 64}, kDevice};
  GpuTensor out_{{kRequests, 16, 512}, kDevice};
  Workspace workspace_{kDevice};
  BatchMla mla_{workspace_};
};

/// The first calls of the process; the tensors, and with them the context, are there. `note` says
/// where kernels come from.
template <class Call>
void MeasureFirst(Report& report, const std::string& what, const std::string& note,
                  const Call& call) {
  const Clock::time_point start = Clock::now();
  call();
  cuda::Synchronize({kDevice});
  report.Write(fmt::format("first {} of the process, the context there{}", what, note), "",
               Microseconds(Clock::now() - start));
}

void MeasureRows(Report& report) {
  const GpuTensor x({16, 4096}, kDevice);
  const GpuTensor residual({16, 4096}, kDevice);
  const GpuTensor weight({4096}, kDevice);
  const GpuTensor gated({16, 8192}, kDevice);
  const auto measure = [&](const std::string& name, const std::function<void()>& run) {
    run();
    report.MeasureCall(name, run);
  };
  measure("rmsnorm", [&] { RmsNorm(x, weight, x); });
  measure("fused_add_rmsnorm", [&] { FusedAddRmsNorm(x, residual, weight, x); });
  measure("silu_and_mul", [&] { SiluAndMul(gated, x); });
  const GpuTensor q({16, 32, 128}, kDevice);
  const GpuTensor k({16, 8, 128}, kDevice);
  const GpuTensor pos_ids(std::vector<int32_t>(16, 77), kDevice);
  measure("rope", [&] { ApplyRope(q, k, pos_ids, q, k); });
  const GpuTensor logits({16, 32768}, kDevice);
  const GpuTensor probs(std::vector<float>(32768, 1.0f / 32768), {16, 32768}, kDevice);
  const GpuTensor tokens(std::vector<int32_t>(16), kDevice);
  measure("softmax", [&] { Softmax(logits, probs, 0.7f); });
  measure("sampling, top-k and top-p",
          [&] { SampleFromProbs(probs, tokens, {.top_k = 40, .top_p = 0.9f}); });
}

template <class Planned>
void MeasurePlanned(Report& report, const std::string& name, Planned& planned) {
  planned.Plan();
  planned.Run();
  report.MeasureCall(name, [&] { planned.Run(); });
  report.MeasureCall(name + " plan, with its copy", [&] { planned.Plan(); });
}

void MeasureAll(Report& report, const std::string& note) {
  Decode decode;
  {
    const GpuTensor x({16, 4096}, kDevice);
    const GpuTensor weight({4096}, kDevice);
    MeasureFirst(report, "call", note, [&] { RmsNorm(x, weight, x); });
  }
  MeasureFirst(report, "decode, plan and run,", note, [&] {
    decode.Plan();
    decode.Run();
  });
  if (!note.empty()) return;
  MeasureRows(report);
  MeasurePlanned(report, "batch_decode, 256 requests", decode);
  Prefill prefill;
  MeasurePlanned(report, "batch_prefill, 16 requests of 16 tokens", prefill);
  Mla mla;
  MeasurePlanned(report, "batch_mla, 64 requests", mla);
}

}  // namespace
}  // namespace flashinfer::bench

int main(int argc, char** argv) {
  using namespace flashinfer::bench;
  std::string why;
  if (!flashinfer::cuda::Available(&why)) {
    fmt::print(stderr, "gpu_host_benchmark: {}\n", why);
    return 77;
  }
  StandInForLaunch();
  Report report(argc > 1 ? argv[1] : nullptr, argc > 2 ? argv[2] : "unknown");
  MeasureAll(report, argc > 3 ? std::string(", ") + argv[3] : "");
  return 0;
}
