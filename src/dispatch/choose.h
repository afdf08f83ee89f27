// SPDX-License-Identifier: Apache-2.0
// Walks an operator's candidates: the first that takes the problem runs it.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/fields.h"
#include "dispatch/candidate.h"
#include "flashinfer/backend.h"
#include "flashinfer/error.h"

namespace flashinfer {

/// FLASHINFER_BACKEND where the caller said `auto`.
Backend EffectiveBackend(Backend asked);

/// `cpu` and `cpu.avx2` both name the candidate `cpu.avx2`; `auto` names all.
bool Names(Backend backend, std::string_view candidate);

[[noreturn]] void ThrowNoCandidate(const Explanation& explanation);
[[noreturn]] void ThrowUnknownBackend(Backend backend, const Explanation& explanation);

/// Whether an explanation counts what this machine has, or only what the code can do.
enum class Machine : uint8_t { kThis, kAny };

/// Calls visit(candidate) in the order in which they are asked, until it returns true.
template <class Op, class Visit>
void ForEachCandidate(const typename Op::Problem& problem, Visit visit) {
  for (const bool of_those_that_yield : {false, true}) {
    for (const auto& candidate : Op::Candidates()) {
      const bool yields = candidate.yields != nullptr && candidate.yields(problem);
      if (yields == of_those_that_yield && visit(candidate)) return;
    }
  }
}

/// What each candidate of `Op` says to the problem. An Op has `kName`, `Problem`, `Entry` and
/// `Candidates()`, a span of Candidate<Problem, Entry>.
template <class Op>
Explanation ExplainOp(const typename Op::Problem& problem, Backend backend = Backend(),
                      Machine machine = Machine::kThis) {
  Explanation explanation;
  explanation.problem = FieldsText(Op::kName, problem);
  ForEachCandidate<Op>(problem, [&](const auto& candidate) {
    Verdict verdict{std::string(candidate.name), false, ""};
    if (!Names(backend, candidate.name)) {
      verdict.reason = "not asked for";
    } else {
      verdict.accepted = candidate.accepts(problem, &verdict.reason) &&
                         (machine == Machine::kAny || candidate.available(&verdict.reason));
    }
    explanation.verdicts.push_back(verdict);
    return false;
  });
  return explanation;
}

/// A bit for each candidate of `Op` that Choose() has returned.
template <class Op>
inline std::atomic<uint64_t> g_chosen{0};

template <class Op>
void MarkChosen(const Candidate<typename Op::Problem, typename Op::Entry>& candidate) {
  const uint64_t bit = uint64_t{1} << (&candidate - Op::Candidates().data());
  // Read first: a write would take the line from other threads at each call.
  if ((g_chosen<Op>.load(std::memory_order_relaxed) & bit) == 0) {
    g_chosen<Op>.fetch_or(bit, std::memory_order_relaxed);
  }
}

/// Names of the candidates that Choose() has returned.
template <class Op>
std::vector<std::string> ChosenNames() {
  const uint64_t chosen = g_chosen<Op>.load(std::memory_order_relaxed);
  std::vector<std::string> names;
  uint64_t bit = 1;
  for (const auto& candidate : Op::Candidates()) {
    if ((chosen & bit) != 0) names.emplace_back(candidate.name);
    bit <<= 1;
  }
  return names;
}

/// The entry of the first candidate that takes the problem. Throws kInvalidArgument when `backend`
/// names no candidate, and kUnsupported with every reason when all refuse.
template <class Op>
const typename Op::Entry& Choose(const typename Op::Problem& problem, Backend backend) {
  backend = EffectiveBackend(backend);
  bool any_named = false;
  const typename Op::Entry* chosen = nullptr;
  ForEachCandidate<Op>(problem, [&](const auto& candidate) {
    if (!Names(backend, candidate.name)) return false;
    any_named = true;
    if (!candidate.available(nullptr) || !candidate.accepts(problem, nullptr)) return false;
    MarkChosen<Op>(candidate);
    chosen = &candidate.entry;
    return true;
  });
  if (chosen != nullptr) return *chosen;
  const Explanation explanation = ExplainOp<Op>(problem, backend);
  if (!any_named) ThrowUnknownBackend(backend, explanation);
  ThrowNoCandidate(explanation);
}

}  // namespace flashinfer
