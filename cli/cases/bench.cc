// SPDX-License-Identifier: Apache-2.0
// `flashinfer bench`: operators measured on a device.
#include <fmt/format.h>

#include <algorithm>

#include "cases_commands.h"
#include "flashinfer/cpu.h"
#include "flashinfer/device.h"
#include "flashinfer/error.h"
#include "op_benchmarks.h"

namespace flashinfer::cli {

int Bench(const BenchOptions& options) {
  if (options.threads > 0) SetNumThreads(options.threads);
  if (options.print_device) {
    fmt::print("{}\n", bench::DeviceName());
    return 0;
  }
  const Device device = ParseDevice(options.device);
  const std::vector<bench::OpBenchmark> all = bench::OpBenchmarks();
  std::vector<std::string> known;
  known.reserve(all.size());
  for (const bench::OpBenchmark& benchmark : all) known.emplace_back(benchmark.op);
  bench::HarnessOptions harness_options = options.harness;
  harness_options.filter = options.words;
  harness_options.device = device;
  const std::vector<std::string> ops = TakeOps(harness_options.filter, known);
  if (!harness_options.single_case.empty() && ops.size() != 1) {
    throw Error(ErrorKind::kInvalidArgument, "--case: is of one operator, which must be named");
  }
  int64_t num_cases = 0;
  int64_t num_run = 0;
  for (const bench::OpBenchmark& benchmark : all) {
    if (!ops.empty() && std::find(ops.begin(), ops.end(), benchmark.op) == ops.end()) continue;
    bench::Harness harness(benchmark.op, harness_options);
    for (const std::string& text : harness.Cases(benchmark.cases)) {
      harness.Begin();
      ++num_cases;
      if (options.list) {
        fmt::print("{} {}\n", benchmark.op, text);
        continue;
      }
      try {
        benchmark.run(harness, text);
        ++num_run;
      } catch (const Error& error) {
        // A device, or a backend that was asked for, need not take every case.
        if (error.kind() != ErrorKind::kUnsupported) throw;
        fmt::print(stderr, "{} {}: {}\n", benchmark.op, text, error.what());
      }
    }
  }
  if (num_cases == 0) throw Error(ErrorKind::kInvalidArgument, "no case has all of these words");
  if (num_run == 0 && !options.list) throw Error(ErrorKind::kUnsupported, "no case was measured");
  return 0;
}

}  // namespace flashinfer::cli
