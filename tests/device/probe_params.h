// SPDX-License-Identifier: Apache-2.0
// What kernels of tests get: host and device share it.
#pragma once

#include "core/tensor_map.h"
#include "kernels/portable.h"

namespace flashinfer::probe {

/// Each probe says what it reads and writes.
struct ProbeParams {
  TensorMap map{};
  TensorMap map_out{};
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;
  int64_t size = 0;
};

}  // namespace flashinfer::probe
