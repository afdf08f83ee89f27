// SPDX-License-Identifier: Apache-2.0
// Preference and error text of the candidate walk.
#include "dispatch/choose.h"

#include <algorithm>
#include <vector>

#include "core/env.h"

namespace flashinfer {

Backend EffectiveBackend(Backend asked) {
  const std::string& preferred = GetEnv().backend;
  return asked.is_auto() && !preferred.empty() ? Backend(preferred) : asked;
}

bool Names(Backend backend, std::string_view candidate) {
  if (backend.is_auto() || backend.name() == candidate) return true;
  return candidate.starts_with(backend.name()) && candidate[backend.name().size()] == '.';
}

std::string Text(const Explanation& explanation) {
  size_t width = 0;
  for (const Verdict& verdict : explanation.verdicts) {
    width = std::max(width, verdict.candidate.size());
  }
  const Verdict* chosen = explanation.chosen();
  std::string text = explanation.problem + "\n";
  for (const Verdict& verdict : explanation.verdicts) {
    std::string_view answer = verdict.reason;
    if (verdict.accepted) {
      answer = &verdict != chosen         ? "could run it"
               : explanation.note.empty() ? "runs it"
                                          : "would run it";
    }
    text += fmt::format("  {:{}}  {}\n", verdict.candidate, width, answer);
  }
  if (!explanation.note.empty())
    text += fmt::format("  not on this machine: {}\n", explanation.note);
  return text;
}

void ThrowNoCandidate(const Explanation& explanation) {
  throw Error(ErrorKind::kUnsupported, "no backend takes this problem: " + Text(explanation));
}

void ThrowUnknownBackend(Backend backend, const Explanation& explanation) {
  std::vector<std::string> names{"auto"};
  for (const Verdict& verdict : explanation.verdicts) {
    const std::string family = verdict.candidate.substr(0, verdict.candidate.find('.'));
    if (std::find(names.begin(), names.end(), family) == names.end()) names.push_back(family);
    names.push_back(verdict.candidate);
  }
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("backend: '{}' is not one of {}", backend.name(), Join(names)));
}

}  // namespace flashinfer
