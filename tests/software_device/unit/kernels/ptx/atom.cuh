// SPDX-License-Identifier: Apache-2.0
// Atomic operations: threads run one at a time.
#pragma once

#include "kernels/portable.h"

namespace flashinfer::kernels::ptx {

inline uint32_t atom_inc_acq_rel(uint32_t* counter, uint32_t limit) {
  const uint32_t before = *counter;
  *counter = before >= limit ? 0 : before + 1;
  return before;
}

}  // namespace flashinfer::kernels::ptx
