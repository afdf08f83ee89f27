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
  int64_t panels_per_task;
  int64_t max_block;  ///< tokens
  bool uses_pairs;    ///< bf16 weights multiply with bf16 pairs, not with floats
  /// Writes the arrays of `activations` that are there for tokens `begin` (a multiple of max_block)
  /// to `end`.
  void (*prepare)(const LinearInput& input, int64_t begin, int64_t end,
                  const LinearActivations& activations);
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
