// SPDX-License-Identifier: Apache-2.0
// Whether two tensors share memory.
#pragma once

#include "flashinfer/tensor.h"

namespace flashinfer {

/// Whether some byte is of both tensors. Allocates nothing. Exact but for tensors of unlike strides
/// whose rows lie between each other's many times: such a search is given up, and the answer is no.
bool SharesMemory(const TensorView& a, const TensorView& b);

/// Whether both are the same elements of one type in the same order.
bool IsSameView(const TensorView& a, const TensorView& b);

}  // namespace flashinfer
