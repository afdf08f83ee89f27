// SPDX-License-Identifier: Apache-2.0
// A tensor map as kernels take it: what the driver encodes, and the copy engine of SM90 reads.
#pragma once

namespace flashinfer {

/// CUtensorMap. Lies in a kernel's parameters, or in device memory; cuda::EncodeTensorMap() fills
/// it.
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

}  // namespace flashinfer
