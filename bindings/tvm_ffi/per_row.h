// SPDX-License-Identifier: Apache-2.0
// A value for every row as an argument: a number, or a tensor with one per row.
#pragma once

#include <optional>
#include <string>

#include "bindings/tvm_ffi/call.h"
#include "flashinfer/sampling.h"

namespace tvm::ffi {

template <class T>
struct TypeTraits<flashinfer::PerRow<T>> : public TypeTraitsBase {
  static constexpr bool storage_enabled = false;
  static constexpr int32_t field_static_type_index = TypeIndex::kTVMFFIAny;

  static std::optional<flashinfer::PerRow<T>> TryCastFromAnyView(const TVMFFIAny* src) {
    if (src->type_index == TypeIndex::kTVMFFINone) return std::nullopt;
    if (const auto number = TypeTraits<T>::TryCastFromAnyView(src)) return *number;
    if (const auto tensor = TypeTraits<flashinfer::TensorView>::TryCastFromAnyView(src)) {
      return *tensor;
    }
    return std::nullopt;
  }
  static std::string TypeStr() { return "number or Tensor"; }
  static std::string TypeSchema() { return R"({"type":"Any"})"; }
};

}  // namespace tvm::ffi
