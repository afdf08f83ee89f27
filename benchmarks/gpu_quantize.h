// SPDX-License-Identifier: Apache-2.0
// Quantisation and layouts of scales on a CUDA device.
#pragma once

#include <functional>
#include <string>

#include "flashinfer/stream.h"
#include "gpu_sampling.h"

namespace flashinfer::bench {

/// bf16 rows of `hidden_size` to every format of values with scales, and back.
void MeasureQuantize(const WantsFunction& wants, const MeasureFunction& measure, Device device,
                     int64_t num_rows, int64_t hidden_size);

}  // namespace flashinfer::bench
