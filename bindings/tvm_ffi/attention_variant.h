// SPDX-License-Identifier: Apache-2.0
// A user's attention variant as an object of other languages, and its values in a run.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/object.h>

#include <utility>
#include <vector>

#include "flashinfer/attention/variant.h"

namespace flashinfer::bindings {

class VariantObject : public tvm::ffi::Object {
 public:
  explicit VariantObject(AttentionVariant variant) : variant_(std::move(variant)) {}

  const AttentionVariant& variant() const { return variant_; }

  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("flashinfer.AttentionVariant", VariantObject, tvm::ffi::Object);

 private:
  AttentionVariant variant_;
};

class Variant : public tvm::ffi::ObjectRef {
 public:
  explicit Variant(tvm::ffi::ObjectPtr<VariantObject> object) : ObjectRef(std::move(object)) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(Variant, tvm::ffi::ObjectRef, VariantObject);
};

/// The values of a variant made of a declaration: its tensors, those from `first` on, then its
/// numbers.
std::vector<VariantValue> ValuesOf(
    const tvm::ffi::Array<tvm::ffi::Optional<tvm::ffi::Tensor>>& tensors,
    const tvm::ffi::Array<double>& numbers, int64_t first = 0);

}  // namespace flashinfer::bindings
