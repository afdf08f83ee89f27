// SPDX-License-Identifier: Apache-2.0
// A workspace in a caller's tensor, from its first aligned byte on.
#include "bindings/tvm_ffi/borrowed_workspace.h"

#include <algorithm>
#include <cstdint>

#include "flashinfer/error.h"

namespace flashinfer::bindings {

Workspace BorrowedWorkspace(const TensorView& buffer) {
  if (!buffer.is_contiguous()) {
    throw Error(ErrorKind::kInvalidArgument,
                "float_workspace_buffer: is " + Text(buffer) + ", expected a dense tensor");
  }
  const auto bytes = static_cast<size_t>(buffer.num_elements() * SizeBytes(buffer.dtype()));
  const auto address = reinterpret_cast<uintptr_t>(buffer.data());
  const size_t skipped =
      std::min(bytes, (kWorkspaceAlignment - address % kWorkspaceAlignment) % kWorkspaceAlignment);
  if (skipped == bytes) return Workspace::Borrow(nullptr, 0, buffer.device());
  return Workspace::Borrow(buffer.data_as<char>() + skipped, bytes - skipped, buffer.device());
}

}  // namespace flashinfer::bindings
