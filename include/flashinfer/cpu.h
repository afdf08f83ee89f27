// SPDX-License-Identifier: Apache-2.0
// The CPU backend's settings: threads and instruction set.
#pragma once

#include <string_view>

#include "flashinfer/export.h"

namespace flashinfer {

/// Threads that CPU operators use, the calling one included. By default the cores that this process
/// may use, or FLASHINFER_NUM_THREADS. Takes effect at the next call; not while an operator runs.
/// Throws kInvalidArgument outside 1..256.
FLASHINFER_API void SetNumThreads(int num_threads);
FLASHINFER_API int NumThreads();

/// The best instruction set that this CPU has and FLASHINFER_CPU_ISA allows: `scalar`, `avx2`,
/// `avx512` or `avx512_bf16` (AVX-512 with VNNI and BF16).
FLASHINFER_API std::string_view CpuIsaName();

}  // namespace flashinfer
