// SPDX-License-Identifier: Apache-2.0
// Prefill on a CUDA device.
#pragma once

#include <functional>
#include <string>

#include "flashinfer/stream.h"

namespace flashinfer::bench {

/// Whether a case of an operator is to be measured.
using WantsCaseFunction = std::function<bool(const std::string&, const std::string&)>;

/// How a benchmark is measured: operator, case, operations that it must do, and one call.
using MeasureFlopsFunction = std::function<void(const std::string&, const std::string&, double,
                                                const std::function<void(Stream)>&)>;

/// bf16 prompts over pages: long ones, batches, other head sizes, and new tokens after old ones.
void MeasurePrefills(const WantsCaseFunction& wants, const MeasureFlopsFunction& measure,
                     Device device);

}  // namespace flashinfer::bench
