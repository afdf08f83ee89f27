// SPDX-License-Identifier: Apache-2.0
// The functions of libnvrtc that are used, and where the library is looked for.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "jit/nvrtc.h"

namespace flashinfer::jit {

/// Entry points by their names there; declared here so that a build needs no CUDA toolkit.
struct NvrtcLibrary {
  using Program = struct ProgramTag*;
  int (*nvrtcVersion)(int* major, int* minor);
  const char* (*nvrtcGetErrorString)(int result);
  int (*nvrtcCreateProgram)(Program*, const char* source, const char* name, int num_headers,
                            const char* const* headers, const char* const* include_names);
  int (*nvrtcDestroyProgram)(Program*);
  int (*nvrtcCompileProgram)(Program, int num_options, const char* const* options);
  int (*nvrtcGetProgramLogSize)(Program, size_t*);
  int (*nvrtcGetProgramLog)(Program, char*);
  int (*nvrtcGetCUBINSize)(Program, size_t*);
  int (*nvrtcGetCUBIN)(Program, char*);
  int (*nvrtcGetNumSupportedArchs)(int*);
  int (*nvrtcGetSupportedArchs)(int*);
  /// Since CUDA 12.8; null before.
  int (*nvrtcSetFlowCallback)(Program, int (*callback)(void*, void*), void* payload);

  NvrtcInfo info;
  std::vector<int> archs;
};

/// Null with the reason in `why`. Opened once, at the first call.
const NvrtcLibrary* OpenNvrtc(std::string* why);

}  // namespace flashinfer::jit
