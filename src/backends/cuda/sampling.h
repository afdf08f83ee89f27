// SPDX-License-Identifier: Apache-2.0
// Softmax, sampling and argmax on CUDA devices.
#pragma once

#include "ops/sampling.h"

namespace flashinfer::cuda {

void RunSoftmax(const SoftmaxParams& params);
void RunSampling(const SamplingParams& params);
void RunArgMax(const ArgMaxParams& params);

}  // namespace flashinfer::cuda
