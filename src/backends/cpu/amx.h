// SPDX-License-Identifier: Apache-2.0
// AMX: whether it may run, and the kernels that use it, those of linear layers with bf16 weights.
#pragma once

#include <string>

#include "backends/cpu/gemm.h"

namespace flashinfer::cpu {

/// For Candidate::available. The first call asks the kernel to let this process use tiles.
bool AmxAvailable(std::string* why);

namespace amx_bf16 {
extern const bool kHasTiles;  ///< whether the compiler could make them
extern const LinearKernels kLinearKernels;
extern const GemmKernels kGemmKernels;
}  // namespace amx_bf16

}  // namespace flashinfer::cpu
