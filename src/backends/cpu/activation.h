// SPDX-License-Identifier: Apache-2.0
// Gated activations on the CPU.
#pragma once

#include <cstdint>
#include <string>

#include "backends/cpu/isa.h"
#include "backends/cpu/thread_pool.h"
#include "ops/activation.h"

namespace flashinfer::cpu {

bool AcceptsActivation(const ActivationProblem& problem, std::string* why);

/// Columns `begin` to `end` of one token.
using ActivationPartFunction = void(const ActivationParams& params, int64_t token, int64_t begin,
                                    int64_t end);

#define FLASHINFER_DECLARE(isa, name)    \
  namespace name {                       \
  ActivationPartFunction ActivationPart; \
  }
FLASHINFER_FOR_EACH_ISA(FLASHINFER_DECLARE)
#undef FLASHINFER_DECLARE

/// Calls `part` for every column of every token, shared over threads.
void ShareActivation(const ActivationParams& params, ActivationPartFunction* part);

template <ActivationPartFunction kPart>
void RunActivation(const ActivationParams& params) {
  ShareActivation(params, kPart);
}

}  // namespace flashinfer::cpu
