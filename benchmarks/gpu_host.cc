// SPDX-License-Identifier: Apache-2.0
// What calls on a CUDA device cost the host, of it the driver's launch, and what the first call
// costs. Arguments: a file for JSON lines, the commit, and where the first kernel comes from.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>

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

/// `first_note` says where kernels come from.
void MeasureRows(Report& report, const std::string& first_note) {
  const GpuTensor x({16, 4096}, kDevice);
  const GpuTensor residual({16, 4096}, kDevice);
  const GpuTensor weight({4096}, kDevice);
  const GpuTensor gated({16, 8192}, kDevice);
  const Clock::time_point start = Clock::now();
  RmsNorm(x, weight, x);
  cuda::Synchronize({kDevice});
  report.Write("first call of the process, the context there" + first_note, "",
               Microseconds(Clock::now() - start));
  report.MeasureCall("rmsnorm", [&] { RmsNorm(x, weight, x); });
  FusedAddRmsNorm(x, residual, weight, x);
  report.MeasureCall("fused_add_rmsnorm", [&] { FusedAddRmsNorm(x, residual, weight, x); });
  SiluAndMul(gated, x);
  report.MeasureCall("silu_and_mul", [&] { SiluAndMul(gated, x); });
  const GpuTensor q({16, 32, 128}, kDevice);
  const GpuTensor k({16, 8, 128}, kDevice);
  const GpuTensor pos_ids(std::vector<int32_t>(16, 77), kDevice);
  ApplyRope(q, k, pos_ids, q, k);
  report.MeasureCall("rope", [&] { ApplyRope(q, k, pos_ids, q, k); });
}

void MeasureDecode(Report& report) {
  constexpr int64_t kRequests = 256;
  constexpr int64_t kPages = 4;
  const GpuTensor k({kRequests * kPages, 16, 8, 128}, kDevice);
  const GpuTensor v({kRequests * kPages, 16, 8, 128}, kDevice);
  const GpuTensor q({kRequests, 32, 128}, kDevice);
  const GpuTensor out({kRequests, 32, 128}, kDevice);
  std::vector<int32_t> page_ids;
  std::vector<int32_t> indptr{0};
  for (int64_t b = 0; b < kRequests; ++b) {
    for (int64_t i = 0; i < kPages; ++i) page_ids.push_back(static_cast<int32_t>(b * kPages + i));
    indptr.push_back(static_cast<int32_t>(page_ids.size()));
  }
  const GpuTensor indices(page_ids, kDevice);
  const std::vector<int32_t> last(kRequests, 16);
  AttentionProblem problem;
  problem.num_qo_heads = 32;
  problem.num_kv_heads = 8;
  problem.head_dim_qk = 128;
  problem.head_dim_vo = 128;
  problem.page_size = 16;
  problem.arch = cuda::ArchOf(kDevice);
  Workspace workspace(kDevice);
  BatchDecode decode(workspace);
  const auto plan = [&] {
    decode.Plan(problem, {{indptr.data(), DType::kI32, {kRequests + 1}},
                          indices,
                          {last.data(), DType::kI32, {kRequests}}});
  };
  plan();
  decode.Run(q, {k, v}, out);
  report.MeasureCall("batch_decode, 256 requests", [&] { decode.Run(q, {k, v}, out); });
  report.MeasureCall("batch_decode plan, 256 requests, with its copy", plan);
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
  MeasureRows(report, argc > 3 ? std::string(", ") + argv[3] : "");
  MeasureDecode(report);
  return 0;
}
