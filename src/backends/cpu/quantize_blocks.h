// SPDX-License-Identifier: Apache-2.0
// Quantisation of blocks with narrow scales, and back, on the CPU.
#pragma once

#include <cstdint>
#include <string>

#include "backends/cpu/isa.h"
#include "backends/cpu/thread_pool.h"
#include "ops/quantize_blocks.h"

namespace flashinfer::cpu {

bool AcceptsQuantizeBlocks(const QuantizeBlocksProblem& problem, std::string* why);

/// Rows `begin` to `end`, either direction.
using BlockRowsFunction = void(const QuantizeBlocksParams& params, int64_t begin, int64_t end);

#define FLASHINFER_DECLARE(isa, name) \
  namespace name {                    \
  BlockRowsFunction BlockRows;        \
  }
FLASHINFER_FOR_EACH_ISA(FLASHINFER_DECLARE)
#undef FLASHINFER_DECLARE

/// Writes zeros to the padding of the scales.
void ClearScalePadding(const QuantizeBlocksParams& params);

/// Rows that one thread takes at a time.
int64_t BlockRowsGrain(const QuantizeBlocksParams& params);

template <BlockRowsFunction kRows>
void RunQuantizeBlocks(const QuantizeBlocksParams& params) {
  if (!params.inverse) ClearScalePadding(params);
  ParallelFor(params.num_rows, BlockRowsGrain(params),
              [&](int64_t begin, int64_t end) { kRows(params, begin, end); });
}

}  // namespace flashinfer::cpu
