// SPDX-License-Identifier: Apache-2.0
// Renormalising and masking rows of a vocabulary on CUDA devices.
#pragma once

#include "ops/token_filter.h"

namespace flashinfer::cuda {

void RunTokenFilter(const TokenFilterParams& params);

}  // namespace flashinfer::cuda
