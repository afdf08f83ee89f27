// SPDX-License-Identifier: Apache-2.0
// Compiling many kernels in processes of their own: the compiler takes one at a time in each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "flashinfer/jit.h"

namespace flashinfer::cli {

struct CompileJob {
  std::string spec;
  std::string arch;
  int64_t weight;  ///< jobs of more come first: those that take long must not end alone
};

/// As many processes as there are cores, and memory for: one takes up to 400 MiB.
int UsableWorkers();

/// Compiles every job in `num_workers` processes; the results are in the order of the jobs.
/// `on_done(done, job)` is called after each. Throws the first error of a job, kCompile when a
/// worker died, and kCompile after Ctrl-C; workers have ended by then.
std::vector<CompiledKernel> CompileAll(
    const std::vector<CompileJob>& jobs, int num_workers,
    const std::function<void(size_t done, const CompileJob& job)>& on_done);

}  // namespace flashinfer::cli
