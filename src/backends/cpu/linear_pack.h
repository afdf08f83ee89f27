// SPDX-License-Identifier: Apache-2.0
// Between the blocks of GGUF files and packed panels.
#pragma once

#include <cstdint>

#include "backends/cpu/linear_layout.h"

namespace flashinfer::cpu {

/// Packs rows `row` to `row + 16` of `source` (those that there are; zeros for the others).
void PackPanel(const WeightView& source, int64_t row, uint8_t* panel);

/// Dequantises one row of a panel.
void UnpackRow(WeightFormat format, const uint8_t* panel, int64_t row_in_panel, int64_t cols,
               float* out);

}  // namespace flashinfer::cpu
