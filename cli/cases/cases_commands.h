// SPDX-License-Identifier: Apache-2.0
// What flashinfer-cases does with the operators' shared cases.
#pragma once

#include <string>
#include <vector>

#include "harness.h"

namespace flashinfer::cli {

struct CheckOptions {
  std::vector<std::string> words;    ///< operators, and words of cases; all operators
  std::vector<std::string> devices;  ///< `cpu`, `cuda:0`; those that are there
  std::string backend = "auto";
  int64_t max_cases = 0;  ///< of an operator; 0: all
  bool list = false;
  bool json = false;
};

struct BenchOptions {
  std::vector<std::string> words;  ///< operators, and parts of cases; all operators
  std::string device = "cpu";
  int threads = 0;  ///< 0: all cores
  bool list = false;
  bool print_device = false;
  bench::HarnessOptions harness;
};

/// Each returns the exit code, and throws Error.
int Check(const CheckOptions& options);
int Bench(const BenchOptions& options);

/// Takes the words that are names of operators out of `words`: operators and cases share a line.
/// Throws kInvalidArgument, listing `known`, for a word that neither is one nor has a `=`.
std::vector<std::string> TakeOps(std::vector<std::string>& words,
                                 const std::vector<std::string>& known);

}  // namespace flashinfer::cli
