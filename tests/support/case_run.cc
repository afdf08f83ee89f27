// SPDX-License-Identifier: Apache-2.0
// Counts what came of cases.
#include "support/case_run.h"

#include <fmt/ranges.h>

#include <exception>

namespace flashinfer::test {
namespace {

/// Whether a candidate is for tensors of such a device at all; others are not worth a line.
bool IsFor(Device device, std::string_view candidate) {
  return (device.type == DeviceType::kCpu) == candidate.starts_with("cpu.");
}

}  // namespace

void Trial::Expect(std::string_view what, const std::string& mismatch) {
  constexpr size_t kMaxFailures = 5;  // of one trial
  if (!mismatch.empty() && failures_.size() < kMaxFailures)
    failures_.push_back(fmt::format("{}: {}", what, mismatch));
}

void Trial::NoteElement(std::string_view what, std::initializer_list<int64_t> index, double actual,
                        double expected) {
  Expect(fmt::format("{}[{}]", what, fmt::join(index, ", ")),
         fmt::format("is {}, expected {}", actual, expected));
}

Tally& CaseRun::TallyOf(const std::string& candidate, Device device) {
  for (Tally& tally : tallies_) {
    if (tally.candidate == candidate && tally.device == device) return tally;
  }
  return tallies_.emplace_back(Tally{
      .candidate = candidate, .device = device, .num_passed = 0, .num_failed = 0, .refusals = {}});
}

void CaseRun::RunCandidate(const Verdict& verdict, Device device, const std::string& text,
                           const std::function<void(Trial&)>& body) {
  if (!IsFor(device, verdict.candidate) || !Names(options_.backend, verdict.candidate)) return;
  Tally& tally = TallyOf(verdict.candidate, device);
  if (!verdict.accepted) {
    ++tally.refusals[verdict.reason];
    return;
  }
  Trial trial(verdict.candidate, device);
  try {
    body(trial);
  } catch (const std::exception& error) {
    trial.Expect("threw", error.what());
  }
  ++(trial.failures().empty() ? tally.num_passed : tally.num_failed);
  for (const std::string& failure : trial.failures()) {
    failures_.push_back(fmt::format("{} {}: {}", verdict.candidate, text, failure));
  }
}

}  // namespace flashinfer::test
