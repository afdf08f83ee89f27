// SPDX-License-Identifier: Apache-2.0
// Linear layers on the CPU.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backends/cpu/isa.h"
#include "backends/cpu/linear_layout.h"
#include "ops/linear.h"

namespace flashinfer::cpu {

/// The kernels of one instruction set.
struct LinearKernels {
  /// Rounds one row of x, already float, to quants, scales and sums.
  void (*quantize)(const float* x, const LinearActivations& activations, int64_t token);
  /// Rounds one row of x to bf16 pairs; null where plain bf16 weights multiply with floats.
  void (*make_pairs)(const float* x, const LinearActivations& activations, int64_t token);
  void (*to_float)(const void* x, DType dtype, float* out, int64_t size);
  void (*panel)(const LinearPanelTask& task);
};

#define FLASHINFER_DECLARE(isa, name)        \
  namespace name {                           \
  extern const LinearKernels kLinearKernels; \
  }
FLASHINFER_FOR_EACH_ISA(FLASHINFER_DECLARE)
#undef FLASHINFER_DECLARE

bool AcceptsLinear(const LinearProblem& problem, std::string* why);

std::unique_ptr<PackedLinear> PackLinearWith(const LinearKernels& kernels,
                                             const PackRequest& request);

template <const LinearKernels& kKernels>
std::unique_ptr<PackedLinear> PackLinear(const PackRequest& request) {
  return PackLinearWith(kKernels, request);
}

}  // namespace flashinfer::cpu
