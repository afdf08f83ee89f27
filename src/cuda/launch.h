// SPDX-License-Identifier: Apache-2.0
// Launching a loaded kernel: one driver call.
#pragma once

#include <cstdint>

#include "cuda/kernel.h"
#include "flashinfer/stream.h"

namespace flashinfer::cuda {

/// How a kernel is spread over a device; block size and shared memory are the kernel's.
struct LaunchShape {
  int64_t grid_x = 1;
  int64_t grid_y = 1;
  int64_t grid_z = 1;
  int32_t cluster_x = 1;  ///< blocks of a cluster along x; more than 1 needs SM90
  /// Programmatic dependent launch: blocks may start before the kernel ahead of them in the stream
  /// has ended, and wait with ptx::griddepcontrol_wait(). Ignored below SM90.
  bool overlaps_previous = false;
};

namespace launch_detail {
void Launch(const Kernel& kernel, const LaunchShape& shape, void* params, Stream stream);
}

/// Launches on `stream`, or on the default stream of the kernel's device when that has no handle.
/// A grid of no blocks launches nothing. Throws kInvalidArgument when the grid is too large,
/// kDevice when the driver refuses.
template <class Params>
void Launch(const Kernel& kernel, const LaunchShape& shape, const Params& params, Stream stream) {
  launch_detail::Launch(kernel, shape, const_cast<Params*>(&params), stream);
}

}  // namespace flashinfer::cuda
