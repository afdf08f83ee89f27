// SPDX-License-Identifier: Apache-2.0
// `flashinfer check`: every candidate over the shared cases, as a table.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cases_commands.h"
#include "core/text.h"
#include "exit_codes.h"
#include "flashinfer/device.h"
#include "flashinfer/error.h"
#include "support/op_checks.h"

namespace flashinfer::cli {
namespace {

using test::CaseRun;
using test::OpCheck;
using test::Tally;

int64_t NumRefused(const Tally& tally) {
  int64_t count = 0;
  for (const auto& [reason, cases] : tally.refusals) count += cases;
  return count;
}

void PrintHeader() {
  fmt::print("{:28} {:20} {:>7} {:>7} {:>7} {:>7}  {}\n", "op", "candidate", "cases", "passed",
             "failed", "refused", "on");
}

/// One line a candidate; below it why it refused, most frequent reason first.
void PrintTally(std::string_view op, const Tally& tally) {
  const int64_t num_refused = NumRefused(tally);
  fmt::print("{:28} {:20} {:7} {:7} {:7} {:7}  {}\n", op, tally.candidate,
             tally.num_passed + tally.num_failed + num_refused, tally.num_passed, tally.num_failed,
             num_refused, Name(tally.device));
  std::vector<std::pair<int64_t, std::string_view>> reasons;
  reasons.reserve(tally.refusals.size());
  for (const auto& [reason, cases] : tally.refusals) reasons.emplace_back(cases, reason);
  std::sort(reasons.rbegin(), reasons.rend());
  for (const auto& [cases, reason] : reasons) fmt::print("{:>12} refused: {}\n", cases, reason);
}

nlohmann::ordered_json JsonOf(std::string_view op, const Tally& tally) {
  return {{"op", op},
          {"candidate", tally.candidate},
          {"device", Name(tally.device)},
          {"cases", tally.num_passed + tally.num_failed + NumRefused(tally)},
          {"passed", tally.num_passed},
          {"failed", tally.num_failed},
          {"refused", tally.refusals}};
}

std::vector<std::string> OpNames() {
  std::vector<std::string> names;
  names.reserve(test::OpChecks().size());
  for (const OpCheck& check : test::OpChecks()) names.emplace_back(check.op);
  return names;
}

}  // namespace

std::vector<std::string> TakeOps(std::vector<std::string>& words,
                                 const std::vector<std::string>& known) {
  std::vector<std::string> ops;
  std::vector<std::string> rest;
  for (const std::string& text : words) {
    for (std::string_view word : SplitWords(text)) {
      if (word.find('=') != std::string_view::npos) {
        rest.emplace_back(word);
      } else if (std::find(known.begin(), known.end(), word) != known.end()) {
        ops.emplace_back(word);
      } else {
        throw Error(ErrorKind::kInvalidArgument,
                    fmt::format("'{}' is no operator and no field=value; operators: {}", word,
                                Join(known)));
      }
    }
  }
  words = rest;
  return ops;
}

int Check(const CheckOptions& options) {
  std::vector<std::string> words = options.words;
  const std::vector<std::string> known = OpNames();
  const std::vector<std::string> ops = TakeOps(words, known);
  CaseRun::Options run_options{.backend = Backend(options.backend)};
  if (!options.devices.empty()) run_options.devices.clear();
  run_options.devices.reserve(options.devices.size());
  for (const std::string& device : options.devices) {
    run_options.devices.push_back(ParseDevice(device));
  }
  const test::CaseFilter filter{.words = words, .max_cases = options.max_cases};
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  nlohmann::ordered_json failures = nlohmann::ordered_json::array();
  int64_t num_cases = 0;
  int64_t num_run = 0;
  if (!options.json && !options.list) PrintHeader();
  for (const OpCheck& check : test::OpChecks()) {
    if (!ops.empty() && std::find(ops.begin(), ops.end(), check.op) == ops.end()) continue;
    if (options.list) {
      fmt::print("{}\n", check.op);
      continue;
    }
    CaseRun run(run_options);
    num_cases += check.run(filter, run);
    for (const Tally& tally : run.tallies()) {
      if (!options.json) PrintTally(check.op, tally);
      rows.push_back(JsonOf(check.op, tally));
      num_run += tally.num_passed + tally.num_failed;
    }
    std::fflush(stdout);
    for (const std::string& failure : run.failures()) {
      if (!options.json) fmt::print(stderr, "FAILED {}\n", failure);
      failures.push_back(failure);
    }
  }
  if (options.list) return 0;
  if (num_cases == 0) throw Error(ErrorKind::kInvalidArgument, "no case has all of these words");
  if (options.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"results", rows}, {"failures", failures}}.dump(2));
  }
  // A name that no candidate has looks like that, too.
  if (num_run == 0) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("no candidate ran a case; --backend is '{}'", options.backend));
  }
  return failures.empty() ? 0 : kExitMismatch;
}

}  // namespace flashinfer::cli
