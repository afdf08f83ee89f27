// SPDX-License-Identifier: Apache-2.0
// Latent attention on a CUDA device.
#pragma once

#include <functional>
#include <string>

#include "flashinfer/stream.h"

namespace flashinfer::bench {

/// How a case is measured: its text, bytes that it must read, operations, one call, candidate.
using MeasureMlaFunction =
    std::function<void(const std::string& text, double bytes, double flops,
                       const std::function<void(Stream)>& run, const std::string& candidate)>;

/// Decodes of the sizes of DeepSeek, of few and many requests and heads, whose text `wants`.
void MeasureMla(const std::function<bool(const std::string&)>& wants,
                const MeasureMlaFunction& measure, Device device);

}  // namespace flashinfer::bench
