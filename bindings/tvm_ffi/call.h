// SPDX-License-Identifier: Apache-2.0
// What every exported function needs: tensors as arguments, the current stream, errors by kind.
#pragma once

#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "flashinfer/device.h"
#include "flashinfer/error.h"
#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"

namespace flashinfer::bindings {

/// A view of a DLPack tensor; throws kInvalidArgument for a dtype, device or rank that no operator
/// takes.
TensorView ViewOf(const DLTensor& tensor);

/// Whether the numbers of tensors are what their memory says, for ViewOf() in this thread; else it
/// throws a BufferError for one that a framework may keep as the negative of its memory. The caller
/// then finds out.
void AssumeValuesAreStored(bool are_stored);

/// `tensor` with its bytes taken as another dtype of the same size: engines keep fp8 scales and
/// pairs of fp4 values as u8. Undefined views stay so.
TensorView As(const TensorView& tensor, DType dtype);

/// A single number as [1], whatever its rank.
TensorView AsOneElement(std::string_view name, const TensorView& tensor);

/// All dimensions but the last `num_inner` taken as one; throws kInvalidArgument where strides
/// forbid it.
TensorView AsRows(std::string_view name, const TensorView& tensor, int num_inner);

/// The stream on which the caller's framework works now, on the device of `tensor`.
Stream StreamOf(const TensorView& tensor);

/// Tables that are read on the host, wherever they are: one wait for all that are on a device.
void FetchTables(HostCopies& copies, std::span<TensorView* const> tables);
/// Begins that, without a wait.
void BeginTables(HostCopies& copies, std::span<TensorView* const> tables);

/// The error that the caller's language sees; the kind is the name of its class.
tvm::ffi::Error ErrorOf(const Error& error);
tvm::ffi::Error ErrorOf(const std::exception& error);

/// kFunction with our exceptions turned into the caller's: ours must not cross the border.
template <auto kFunction>
struct Guarded;

template <class Result, class... Args, Result (*kFunction)(Args...)>
struct Guarded<kFunction> {
  static Result Call(Args... args) {
    try {
      return kFunction(std::move(args)...);
    } catch (const Error& error) {
      throw ErrorOf(error);
    } catch (const tvm::ffi::Error&) {
      throw;
    } catch (const std::exception& error) {
      throw ErrorOf(error);
    }
  }
};

}  // namespace flashinfer::bindings

/// Exports `function` under `name`. Tensor parameters are `TensorView`; None makes an undefined
/// one.
#define FLASHINFER_EXPORT(name, function) \
  TVM_FFI_DLL_EXPORT_TYPED_FUNC(name, &::flashinfer::bindings::Guarded<&function>::Call)

namespace tvm::ffi {

template <>
struct TypeTraits<flashinfer::TensorView> : public TypeTraitsBase {
  static constexpr bool storage_enabled = false;
  static constexpr int32_t field_static_type_index = TypeIndex::kTVMFFIDLTensorPtr;

  static std::optional<flashinfer::TensorView> TryCastFromAnyView(const TVMFFIAny* src) {
    try {
      switch (src->type_index) {
        case TypeIndex::kTVMFFIDLTensorPtr:
          return flashinfer::bindings::ViewOf(*static_cast<const DLTensor*>(src->v_ptr));
        case TypeIndex::kTVMFFITensor:
          return flashinfer::bindings::ViewOf(*TVMFFITensorGetDLTensorPtr(src->v_obj));
        case TypeIndex::kTVMFFINone:
          return flashinfer::TensorView();
        default:
          return std::nullopt;
      }
    } catch (const flashinfer::Error& error) {
      throw flashinfer::bindings::ErrorOf(error);
    }
  }
  static std::string TypeStr() { return "Tensor"; }
  static std::string TypeSchema() { return R"({"type":"Tensor"})"; }
};

}  // namespace tvm::ffi
