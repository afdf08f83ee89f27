// SPDX-License-Identifier: Apache-2.0
// Packing of bits on the CPU.
#pragma once

#include <cstdint>
#include <string>

#include "backends/cpu/isa.h"
#include "ops/packbits.h"

namespace flashinfer::cpu {

bool AcceptsPackBits(const PackBitsProblem& problem, std::string* why);

/// Packs `count` elements into ceil(count / 8) bytes.
using PackBytesFunction = void(const uint8_t* x, uint8_t* packed, int64_t count, bool little);

#define FLASHINFER_DECLARE(isa, name) \
  namespace name {                    \
  PackBytesFunction PackBytes;        \
  }
FLASHINFER_FOR_EACH_ISA(FLASHINFER_DECLARE)
#undef FLASHINFER_DECLARE

/// Calls `pack` for every piece of every segment, shared over threads.
void SharePackBits(const PackBitsParams& params, PackBytesFunction* pack);

template <PackBytesFunction kPack>
void RunPackBits(const PackBitsParams& params) {
  SharePackBits(params, kPack);
}

}  // namespace flashinfer::cpu
