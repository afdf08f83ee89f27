// SPDX-License-Identifier: Apache-2.0
// Quantisation to 8 bits and back on the CPU.
#pragma once

#include <cstdint>
#include <string>

#include "backends/cpu/isa.h"
#include "ops/quantize.h"

namespace flashinfer::cpu {

bool AcceptsQuantize(const QuantizeProblem& problem, std::string* why);

/// Columns of a row.
struct QuantizeSpan {
  int64_t row;
  int64_t begin;
  int64_t end;
};

/// The arithmetic of one instruction set.
struct QuantizeKernelTable {
  /// The largest finite |x|.
  float (*amax)(const QuantizeParams& params, const QuantizeSpan& span);
  void (*narrow)(const QuantizeParams& params, const QuantizeSpan& span, float scale);
  void (*widen)(const QuantizeParams& params, const QuantizeSpan& span, float scale);
};

#define FLASHINFER_DECLARE(isa, name)           \
  namespace name {                              \
  const QuantizeKernelTable& QuantizeKernels(); \
  }
FLASHINFER_FOR_EACH_ISA(FLASHINFER_DECLARE)
#undef FLASHINFER_DECLARE

void ShareQuantize(const QuantizeParams& params, const QuantizeKernelTable& kernels);

template <const QuantizeKernelTable& (*kKernels)()>
void RunQuantize(const QuantizeParams& params) {
  ShareQuantize(params, kKernels());
}

}  // namespace flashinfer::cpu
