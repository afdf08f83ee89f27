// SPDX-License-Identifier: Apache-2.0
// Top-k selection on CUDA devices.
#pragma once

#include "ops/topk.h"

namespace flashinfer::cuda {

void RunTopK(const TopKParams& params);

}  // namespace flashinfer::cuda
