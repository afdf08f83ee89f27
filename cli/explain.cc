// SPDX-License-Identifier: Apache-2.0
// `flashinfer explain`: what the library would do, and why.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "commands.h"
#include "flashinfer/backend.h"
#include "flashinfer/error.h"

namespace flashinfer::cli {
namespace {

nlohmann::ordered_json Json(const Explanation& explanation) {
  const Verdict* const chosen = explanation.chosen();
  nlohmann::ordered_json out{{"problem", explanation.problem},
                             {"chosen", nullptr},
                             {"candidates", nlohmann::ordered_json::array()}};
  if (chosen != nullptr) out["chosen"] = chosen->candidate;
  if (!explanation.note.empty()) out["note"] = explanation.note;
  for (const Verdict& v : explanation.verdicts) {
    out["candidates"].push_back(
        {{"name", v.candidate}, {"accepted", v.accepted}, {"reason", v.reason}});
  }
  return out;
}

}  // namespace

int Explain(const ExplainOptions& options) {
  if (options.matrix) {
    fmt::print("{}", SupportMatrix());
    return 0;
  }
  const Explanation explanation = flashinfer::Explain(options.problem);
  if (options.json) {
    fmt::print("{}\n", Json(explanation).dump(2));
  } else {
    fmt::print("{}", Text(explanation));
  }
  if (explanation.chosen() == nullptr) {
    throw Error(ErrorKind::kUnsupported, "no backend takes the problem");
  }
  return 0;
}

}  // namespace flashinfer::cli
