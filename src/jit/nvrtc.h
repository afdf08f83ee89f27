// SPDX-License-Identifier: Apache-2.0
// NVIDIA's run-time compiler, opened when first needed.
#pragma once

#include <string>
#include <vector>

#include "jit/binary.h"
#include "jit/key.h"
#include "jit/source.h"

namespace flashinfer::jit {

/// What was found of it.
struct NvrtcInfo {
  int major = 0;
  int minor = 0;
  std::string path;
  /// `nvrtc-13.0`
  std::string Name() const;
};

/// Null when there is no libnvrtc, or an old one, with the reason and the places that were searched
/// in `why`. Searched once: FLASHINFER_NVRTC, the loader's path, CUDA toolkits, Python's packages.
const NvrtcInfo* FindNvrtc(std::string* why = nullptr);

/// What kernels for a device of compute capability `arch` are compiled for: its own architecture,
/// or, when the compiler is older than the device, the nearest before it whose code runs there.
Target TargetFor(int32_t arch);

struct Compilation {
  Binary binary;
  std::string log;  ///< without the assembler's report
  double seconds = 0;
};

/// Compiles a unit. Throws kUnsupported when there is no compiler or the unit needs a later
/// architecture, and kCompile with spec, first error and log when it does not compile.
Compilation Compile(const Unit& unit, Target target);

/// Asked while a kernel compiles, from the compiling thread; true ends it with kCompile.
void SetCancelRequested(bool (*is_requested)());

}  // namespace flashinfer::jit
