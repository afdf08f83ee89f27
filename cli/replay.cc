// SPDX-License-Identifier: Apache-2.0
// `flashinfer replay`: makes dumped calls again and compares what they write.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "core/element.h"
#include "dumped_call.h"
#include "flashinfer/error.h"
#include "replay_ops.h"

namespace flashinfer::cli {
namespace {

enum class Result : uint8_t {
  kSame,      ///< bit-equal
  kClose,     ///< within the tolerance
  kMismatch,  ///< some output is not
  kFailed,    ///< the replay threw
  kSkipped,   ///< nothing to compare with
};
constexpr std::string_view kResultNames[] = {"same", "close", "mismatch", "failed", "skipped"};

struct Outcome {
  std::string call;
  std::string op;
  Result result = Result::kSame;
  double max_difference = 0;  ///< of all outputs; infinity where one is NaN or infinite alone
  std::string note;
};

/// What another instruction set's order of summing may change, absolute and relative.
double ToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 1e-4;
    case DType::kF16:
      return 2e-3;
    case DType::kBF16:
      return 1.6e-2;
    case DType::kE4M3:
      return 6.3e-2;
    case DType::kE5M2:
      return 1.25e-1;
    default:
      return 0;
  }
}

std::vector<double> ValuesOf(const TensorView& tensor) {
  std::vector<double> values;
  values.reserve(static_cast<size_t>(tensor.num_elements()));
  ForEachElement(tensor, [&](double value) { values.push_back(value); });
  return values;
}

void Compare(const std::string& name, const TensorView& expected, const TensorView& actual,
             Outcome& outcome) {
  if (!expected.defined()) return;
  const std::vector<double> wanted = ValuesOf(expected);
  const std::vector<double> got = ValuesOf(actual);
  const double tolerance = ToleranceOf(expected.dtype());
  size_t num_bad = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const bool both_nan = std::isnan(wanted[i]) && std::isnan(got[i]);
    if (both_nan || wanted[i] == got[i]) continue;
    double difference = std::abs(wanted[i] - got[i]);
    if (!std::isfinite(difference)) difference = std::numeric_limits<double>::infinity();
    outcome.max_difference = std::max(outcome.max_difference, difference);
    if (outcome.result == Result::kSame) outcome.result = Result::kClose;
    if (!(difference <= tolerance + tolerance * std::abs(wanted[i]))) ++num_bad;
  }
  if (num_bad == 0) return;
  outcome.result = Result::kMismatch;
  outcome.note += fmt::format("{}{}: {} of {} elements differ", outcome.note.empty() ? "" : "; ",
                              name, num_bad, wanted.size());
}

void CompareReturned(const DumpedCall& call, Outcome& outcome) {
  const auto returned = call.Returned();
  if (!returned.has_value()) {
    outcome.result = Result::kSkipped;
    outcome.note = "the dump does not say what it wrote";
    return;
  }
  for (const auto& [name, expected] : *returned) {
    Compare(name, expected.view, call.Tensor(name), outcome);
  }
}

Outcome ReplayOne(const std::filesystem::path& folder, ReplayObjects& objects) {
  Outcome outcome;
  outcome.call = folder.filename().string();
  try {
    const auto call = std::make_shared<const DumpedCall>(folder);
    outcome.op = call->op();
    const auto& table = ReplayTable();
    const auto row = std::ranges::find(table, std::string_view(call->op()), &ReplayRow::op);
    if (row == table.end() || !call->has_all_data()) {
      outcome.result = Result::kSkipped;
      outcome.note = row == table.end() ? "this version has no such operator"
                                        : "its tensors were on another device";
      return outcome;
    }
    row->run(call, objects);
    CompareReturned(*call, outcome);
  } catch (const Error& error) {
    outcome.result = Result::kFailed;
    outcome.note = error.what();
  }
  return outcome;
}

/// Folders with a description, in the order of the calls.
std::vector<std::filesystem::path> CallFolders(const std::string& root) {
  std::error_code error;
  std::vector<std::filesystem::path> folders;
  for (const auto& entry : std::filesystem::directory_iterator(root, error)) {
    if (std::filesystem::exists(entry.path() / "call.json")) folders.push_back(entry.path());
  }
  if (error) throw Error(ErrorKind::kIo, fmt::format("{}: {}", root, error.message()));
  if (folders.empty()) {
    throw Error(ErrorKind::kIo, fmt::format("{}: holds no dumped calls; FLASHINFER_LOGLEVEL=10 "
                                            "FLASHINFER_DUMP_DIR=… makes them",
                                            root));
  }
  std::ranges::sort(folders);
  return folders;
}

void PrintTable(const std::vector<Outcome>& outcomes) {
  size_t width = 4;
  for (const Outcome& o : outcomes) width = std::max(width, o.call.size());
  fmt::print("{:{}}  {:8}  {:>14}  {}\n", "call", width, "result", "max difference", "note");
  for (const Outcome& o : outcomes) {
    fmt::print("{:{}}  {:8}  {:>14.3g}  {}\n", o.call, width,
               kResultNames[static_cast<size_t>(o.result)], o.max_difference, o.note);
  }
}

}  // namespace

int ReplayCalls(const ReplayCallsOptions& options) {
  if (options.list) {
    for (const ReplayRow& row : ReplayTable()) fmt::print("{}\n", row.op);
    return 0;
  }
  ReplayObjects objects;
  const std::vector<std::filesystem::path> folders = CallFolders(options.folder);
  std::vector<Outcome> outcomes;
  outcomes.reserve(folders.size());
  for (const auto& folder : folders) {
    outcomes.push_back(ReplayOne(folder, objects));
  }
  std::array<int64_t, std::size(kResultNames)> counts{};
  for (const Outcome& o : outcomes) ++counts[static_cast<size_t>(o.result)];
  if (options.json) {
    nlohmann::ordered_json json;
    for (size_t i = 0; i < counts.size(); ++i) json[std::string(kResultNames[i])] = counts[i];
    for (const Outcome& o : outcomes) {
      json["calls"].push_back({{"call", o.call},
                               {"op", o.op},
                               {"result", kResultNames[static_cast<size_t>(o.result)]},
                               {"max_difference", o.max_difference},
                               {"note", o.note}});
    }
    fmt::print("{}\n", json.dump(2));
  } else {
    PrintTable(outcomes);
    fmt::print("{} calls: {} same, {} close, {} mismatches, {} failed, {} skipped\n",
               outcomes.size(), counts[0], counts[1], counts[2], counts[3], counts[4]);
  }
  const bool is_good = counts[static_cast<size_t>(Result::kMismatch)] == 0 &&
                       counts[static_cast<size_t>(Result::kFailed)] == 0;
  return is_good ? 0 : kExitMismatch;
}

}  // namespace flashinfer::cli
