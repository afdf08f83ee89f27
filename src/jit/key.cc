// SPDX-License-Identifier: Apache-2.0
// Targets and digests.
#include "jit/key.h"

#include <array>
#include <charconv>

#include "core/check.h"
#include "core/text.h"
#include "jit/hash.h"

namespace flashinfer::jit {
namespace {

// As CUDA 13.0 knows them.
constexpr std::array<Target, 12> kTargets{{{75, false},
                                           {80, false},
                                           {86, false},
                                           {87, false},
                                           {88, false},
                                           {89, false},
                                           {90, true},
                                           {100, true},
                                           {103, true},
                                           {110, true},
                                           {120, true},
                                           {121, true}}};

}  // namespace

std::string Name(Target target) {
  return fmt::format("{}{}", target.arch, target.is_specific ? "a" : "");
}

std::vector<Target> AllTargets() { return {kTargets.begin(), kTargets.end()}; }

Target ParseTarget(std::string_view text) {
  std::string_view digits = text;
  if (digits.starts_with("sm_")) digits.remove_prefix(3);
  Target target;
  if (digits.ends_with('a')) {
    target.is_specific = true;
    digits.remove_suffix(1);
  }
  const auto [rest, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), target.arch);
  std::vector<std::string> names;
  bool is_known = false;
  for (Target known : kTargets) {
    names.push_back(Name(known));
    is_known |= known.arch == target.arch && (known.is_specific || !target.is_specific);
  }
  FLASHINFER_CHECK(error == std::errc{} && rest == digits.data() + digits.size() && is_known,
                   "arch: '{}' is not one of {}", text, Join(names));
  return target;
}

Target TargetOf(int32_t arch) { return {arch, arch >= 90}; }

const std::vector<std::string>& CompilerOptions() {
  static const std::vector<std::string>& options = *new std::vector<std::string>{
      "--std=c++20", "--device-as-default-execution-space", "--ptxas-options=-v"};
  return options;
}

std::string Digest(const Unit& unit, Target target) {
  std::string text = unit.source;  // spec and sizes are in it
  for (const std::string& part : CompilerOptions()) text.append("\n").append(part);
  text.append("\n").append(Name(target)).append("\n").append(FindHeader(unit.header).closure_hash);
  return Hash128(text);
}

}  // namespace flashinfer::jit
