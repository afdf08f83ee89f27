// SPDX-License-Identifier: Apache-2.0
// Layouts of block scales as kernels take them.
#pragma once

#include <cstdint>

#include "flashinfer/quantize.h"
#include "kernels/quantize/scale_layout.h"

namespace flashinfer::cuda {

/// Rows of a layout's tile.
constexpr int32_t TileRowsOf(ScaleLayout layout) {
  switch (layout) {
    case ScaleLayout::k128x4:
      return kernels::kLargeTileRows;
    case ScaleLayout::k8x4:
      return kernels::kSmallTileRows;
    default:
      return kernels::kLinearTileRows;
  }
}

}  // namespace flashinfer::cuda
