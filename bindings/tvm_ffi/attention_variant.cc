// SPDX-License-Identifier: Apache-2.0
// include/flashinfer/attention/variant.h for other languages.
#include "bindings/tvm_ffi/attention_variant.h"

#include <tvm/ffi/string.h>

#include <string>

#include "bindings/tvm_ffi/call.h"

namespace flashinfer::bindings {
namespace {

using tvm::ffi::Array;
using tvm::ffi::Optional;
using tvm::ffi::String;
using tvm::ffi::Tensor;

std::vector<std::string> Strings(const Array<String>& words) {
  return {words.begin(), words.end()};
}

Variant Make(const String& struct_name, const String& text, const Array<String>& tensor_names,
             const Array<String>& tensor_types, const Array<String>& scalar_names,
             const Array<String>& scalar_types, bool transforms_output) {
  return Variant(tvm::ffi::make_object<VariantObject>(
      AttentionVariant::FromDeclaration({.struct_name = struct_name,
                                         .text = text,
                                         .tensor_names = Strings(tensor_names),
                                         .tensor_types = Strings(tensor_types),
                                         .scalar_names = Strings(scalar_names),
                                         .scalar_types = Strings(scalar_types),
                                         .transforms_output = transforms_output})));
}

}  // namespace

std::vector<VariantValue> ValuesOf(const Array<Optional<Tensor>>& tensors,
                                   const Array<double>& numbers, int64_t first) {
  std::vector<VariantValue> values;
  values.reserve(tensors.size() + numbers.size());
  for (int64_t i = first; i < static_cast<int64_t>(tensors.size()); ++i) {
    const Optional<Tensor> tensor = tensors[i];
    values.emplace_back(tensor ? ViewOf(*(*tensor).GetDLTensorPtr()) : TensorView());
  }
  for (double number : numbers) values.emplace_back(number);
  return values;
}

}  // namespace flashinfer::bindings

FLASHINFER_EXPORT(attention_variant_make, flashinfer::bindings::Make)
