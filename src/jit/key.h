// SPDX-License-Identifier: Apache-2.0
// What a kernel is compiled for, and the digest that names it on disk and in packs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "jit/source.h"

namespace flashinfer::jit {

/// What instructions a binary may hold beside those that all later chips have.
enum class Features : char {
  kNone = 0,
  kChip = 'a',    ///< `90a`: those of this chip, on which alone it runs
  kFamily = 'f',  ///< `100f`: those that the chips of its family share, such as 10.0 and 10.3
};

/// An architecture to compile for: compute capability 9.0 is 90.
struct Target {
  int32_t arch = 0;
  Features features = Features::kNone;
  friend bool operator==(const Target&, const Target&) = default;
};

/// `90a`.
std::string Name(Target target);

/// Reads `90a`, `100f`, `90`, or `sm_90a`; throws kInvalidArgument that lists the known ones.
Target ParseTarget(std::string_view text);

/// Every architecture that kernels are compiled for, each in the form with the most features.
std::vector<Target> AllTargets();

/// The form with the most features of the device's own architecture.
Target TargetOf(int32_t arch);

/// Options of the compiler that every unit gets, besides the architecture.
const std::vector<std::string>& CompilerOptions();

/// 32 hexadecimal digits of spec, unit, headers, target and options: never of paths or times. The
/// compiler's version stands beside it where it is known.
std::string Digest(const Unit& unit, Target target);

}  // namespace flashinfer::jit
