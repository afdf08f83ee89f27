// SPDX-License-Identifier: Apache-2.0
// The vector layer of each instruction set as plain functions over arrays, for its test.
#pragma once

#include <cstdint>

#include "backends/cpu/isa.h"
#include "core/convert.h"

namespace flashinfer::cpu {

struct SimdProbe {
  int width;
  void (*exp2)(const float* x, float* out, int64_t count);
  void (*exp)(const float* x, float* out, int64_t count);
  void (*tanh)(const float* x, float* out, int64_t count);
  void (*sigmoid)(const float* x, float* out, int64_t count);
  /// Angles in turns.
  void (*sin_cos)(const float* x, float* sines, float* cosines, int64_t count);
  void (*from_f16)(const F16* x, float* out, int64_t count);
  void (*from_bf16)(const BF16* x, float* out, int64_t count);
  void (*to_f16)(const float* x, F16* out, int64_t count);
  void (*to_bf16)(const float* x, BF16* out, int64_t count);
  void (*from_e4m3)(const E4M3* x, float* out, int64_t count);
  void (*from_e5m2)(const E5M2* x, float* out, int64_t count);
  void (*to_e4m3)(const float* x, E4M3* out, int64_t count);
  void (*to_e5m2)(const float* x, E5M2* out, int64_t count);
  /// The same by whole cache lines.
  void (*lines_to_f16)(const float* x, F16* out, int64_t count);
  void (*lines_to_bf16)(const float* x, BF16* out, int64_t count);
  void (*lines_to_e4m3)(const float* x, E4M3* out, int64_t count);
  void (*lines_to_e5m2)(const float* x, E5M2* out, int64_t count);
};

#define FLASHINFER_DECLARE(isa, name) \
  namespace name {                    \
  const SimdProbe& Probe();           \
  }
FLASHINFER_FOR_EACH_ISA(FLASHINFER_DECLARE)
#undef FLASHINFER_DECLARE

}  // namespace flashinfer::cpu
