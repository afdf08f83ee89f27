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
  for (const bench::OpBenchmark& benchmark : all) {
    if (!ops.empty() && std::find(ops.begin(), ops.end(), benchmark.op) == ops.end()) continue;
    bench::Harness harness(benchmark.op, harness_options);
    for (const std::string& text : harness.Cases(benchmark.cases)) {
      harness.Begin();
      if (options.list) {
        fmt::print("{} {}\n", benchmark.op, text);
        continue;
      }
      try {
        benchmark.run(harness, text);
      } catch (const Error& error) {
        // A device, or a backend that was asked for, need not take every case.
        if (error.kind() != ErrorKind::kUnsupported) throw;
        fmt::print(stderr, "{} {}: {}\n", benchmark.op, text, error.what());
      }
    }
  }
  return 0;
}

}  // namespace flashinfer::cli
