// SPDX-License-Identifier: Apache-2.0
// Shared cases on every candidate, without a test framework: one body serves tests, GPU tests and
// `flashinfer check`.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/fields.h"
#include "support/device.h"
#include "support/tolerance.h"

namespace flashinfer::test {

/// A case in words, which `flashinfer check` takes; cases that are no flat fields have their own.
template <class Case>
std::string CaseText(std::string_view op, const Case& c) {
  return FieldsText(op, c);
}

/// One candidate's run of one case.
class Trial {
 public:
  Trial(std::string candidate, Device device) : candidate_(std::move(candidate)), device_(device) {}
  const std::string& candidate() const { return candidate_; }
  Backend backend() const { return Backend(candidate_); }
  Device device() const { return device_; }
  const std::vector<std::string>& failures() const { return failures_; }

  /// Notes what is wrong with a result, unless `mismatch` is empty.
  void Expect(std::string_view what, const std::string& mismatch);
  void ExpectTrue(std::string_view what, bool holds) {
    if (!holds) Expect(what, "does not hold");
  }
  /// One element, at `index` of a result.
  void ExpectEqual(std::string_view what, std::initializer_list<int64_t> index, double actual,
                   double expected) {
    ExpectNear(what, index, actual, expected, {0, 0});
  }
  void ExpectNear(std::string_view what, std::initializer_list<int64_t> index, double actual,
                  double expected, Tolerance tolerance) {
    if (!Near(actual, expected, tolerance)) NoteElement(what, index, actual, expected);
  }
  /// Both tensors hold the same bits, around their elements too.
  void ExpectSameBytes(std::string_view what, const HostTensor& a, const HostTensor& b) {
    ExpectTrue(what, a.bytes() == b.bytes());
  }

 private:
  void NoteElement(std::string_view what, std::initializer_list<int64_t> index, double actual,
                   double expected);

  std::string candidate_;
  Device device_;
  std::vector<std::string> failures_;
};

/// What came of all cases on one candidate.
struct Tally {
  std::string candidate;
  Device device;
  int64_t num_passed = 0;
  int64_t num_failed = 0;
  std::map<std::string, int64_t> refusals;  ///< how many cases, by reason
};

/// Runs cases and counts.
class CaseRun {
 public:
  struct Options {
    Backend backend;
    std::vector<Device> devices = TestDevices();
  };
  CaseRun() = default;
  explicit CaseRun(Options options) : options_(std::move(options)) {}

  /// Calls `body` for each candidate of `Op` that takes `problem`, on every device. What is thrown
  /// counts as a failure.
  template <class Op, class Case, class Body>
  void ForEachCandidate(typename Op::Problem problem, const Case& c, const Body& body) {
    const std::string text = CaseText(Op::kName, c);
    for (Device device : options_.devices) {
      if constexpr (requires { problem.arch; }) {
        problem.arch = cuda::ArchOf(device);
      } else if (device.type != DeviceType::kCpu) {
        continue;
      }
      for (const Verdict& verdict : ExplainOp<Op>(problem, options_.backend).verdicts) {
        RunCandidate(verdict, device, text, body);
      }
    }
  }

  const Options& options() const { return options_; }
  const std::vector<Tally>& tallies() const { return tallies_; }
  /// `cpu.avx2 norm hidden_size=7 …: out: [3] is 1, expected 2`.
  const std::vector<std::string>& failures() const { return failures_; }

 private:
  void RunCandidate(const Verdict& verdict, Device device, const std::string& text,
                    const std::function<void(Trial&)>& body);
  Tally& TallyOf(const std::string& candidate, Device device);

  Options options_;
  std::vector<Tally> tallies_;
  std::vector<std::string> failures_;
};

}  // namespace flashinfer::test
