// SPDX-License-Identifier: Apache-2.0
// Tensors over memory that a language cannot hand over by DLPack itself.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>

#include <memory>
#include <vector>

#include "bindings/tvm_ffi/call.h"

namespace flashinfer::bindings {
namespace {

namespace ffi = tvm::ffi;

struct Borrowed {
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  DLManagedTensor managed{};
};

/// The fp4 and 4-bit types of arrays are one value a byte, which no operator takes.
ffi::Tensor BorrowedTensor(int64_t address, const ffi::String& dtype,
                           const ffi::Array<int64_t>& shape, const ffi::Array<int64_t>& strides) {
  auto borrowed = std::make_unique<Borrowed>();
  borrowed->shape.assign(shape.begin(), shape.end());
  borrowed->strides.assign(strides.begin(), strides.end());
  DLTensor& tensor = borrowed->managed.dl_tensor;
  tensor.data = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  tensor.device = {kDLCPU, 0};
  tensor.ndim = static_cast<int32_t>(borrowed->shape.size());
  tensor.dtype = ffi::StringToDLDataType(dtype);
  tensor.shape = borrowed->shape.data();
  tensor.strides = borrowed->strides.data();
  borrowed->managed.manager_ctx = borrowed.get();
  borrowed->managed.deleter = [](DLManagedTensor* self) {
    delete static_cast<Borrowed*>(self->manager_ctx);
  };
  return ffi::Tensor::FromDLPack(&borrowed.release()->managed);
}

/// Throws what any function would of this argument.
void CheckArgument(const TensorView&) {}

}  // namespace
}  // namespace flashinfer::bindings

FLASHINFER_EXPORT(assume_values_are_stored, flashinfer::bindings::AssumeValuesAreStored)
FLASHINFER_EXPORT(check_argument, flashinfer::bindings::CheckArgument)
FLASHINFER_EXPORT(borrowed_tensor, flashinfer::bindings::BorrowedTensor)
