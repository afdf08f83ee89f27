// SPDX-License-Identifier: Apache-2.0
// Softmax, sampling, filters and top-k selection on a CUDA device.
#pragma once

#include <functional>
#include <string>

#include "flashinfer/stream.h"

namespace flashinfer::bench {

/// Whether any case of an operator is to be measured.
using WantsFunction = std::function<bool(const std::string&)>;

/// How a benchmark is measured: operator, case, bytes that it must move, and one call.
using MeasureFunction = std::function<void(const std::string&, const std::string&, double,
                                           const std::function<void(Stream)>&)>;

/// Rows of 128256 logits ~ N(0, 3), and their softmax.
void MeasureSampling(const WantsFunction& wants, const MeasureFunction& measure, Device device,
                     int64_t num_rows);

}  // namespace flashinfer::bench
