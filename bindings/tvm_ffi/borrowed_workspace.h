// SPDX-License-Identifier: Apache-2.0
// A workspace in a caller's tensor.
#pragma once

#include <cstddef>

#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"

namespace flashinfer::bindings {

/// Where blocks of a workspace begin; a tensor need not begin there.
inline constexpr size_t kWorkspaceAlignment = 64;

/// Takes the tensor's memory from its first aligned byte on. Throws kInvalidArgument when it is not
/// dense.
Workspace BorrowedWorkspace(const TensorView& buffer);

}  // namespace flashinfer::bindings
