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

// As CUDA 13.0 knows them, each in the form with the most features.
constexpr std::array<Target, 12> kTargets{{{75},
                                           {80},
                                           {86},
                                           {87},
                                           {88},
                                           {89},
                                           {90, Features::kChip},
                                           {100, Features::kChip},
                                           {103, Features::kChip},
                                           {110, Features::kChip},
                                           {120, Features::kChip},
                                           {121, Features::kChip}}};
/// The first whose features are shared in a family.
constexpr int32_t kFirstFamilyArch = 100;

bool Has(Target known, Features features) {
  if (features == Features::kFamily) return known.arch >= kFirstFamilyArch;
  return features == Features::kNone || features == known.features;
}

}  // namespace

std::string Name(Target target) {
  std::string name = std::to_string(target.arch);
  if (target.features != Features::kNone) name.push_back(static_cast<char>(target.features));
  return name;
}

std::vector<Target> AllTargets() { return {kTargets.begin(), kTargets.end()}; }

Target ParseTarget(std::string_view text) {
  std::string_view digits = text;
  if (digits.starts_with("sm_")) digits.remove_prefix(3);
  Target target;
  for (Features features : {Features::kChip, Features::kFamily}) {
    if (!digits.ends_with(static_cast<char>(features))) continue;
    target.features = features;
    digits.remove_suffix(1);
    break;
  }
  const auto [rest, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), target.arch);
  std::vector<std::string> names;
  bool is_known = false;
  for (Target known : kTargets) {
    names.push_back(Name(known));
    is_known |= known.arch == target.arch && Has(known, target.features);
  }
  FLASHINFER_CHECK(error == std::errc{} && rest == digits.data() + digits.size() && is_known,
                   "arch: '{}' is not one of {}, nor 100f or later of a family", text, Join(names));
  return target;
}

Target TargetOf(int32_t arch) { return {arch, arch >= 90 ? Features::kChip : Features::kNone}; }

const std::vector<std::string>& CompilerOptions() {
  static const std::vector<std::string>& options = *new std::vector<std::string>{
      "--std=c++20", "--device-as-default-execution-space", "--ptxas-options=-v"};
  return options;
}

std::string Digest(const Unit& unit, Target target) {
  std::string text = unit.source;  // spec and sizes are in it
  for (const std::string& part : CompilerOptions()) text.append("\n").append(part);
  text.append("\n").append(Name(target));
  for (const std::string& header : unit.headers) {
    text.append("\n").append(FindHeader(header).closure_hash);
  }
  return Hash128(text);
}

}  // namespace flashinfer::jit
