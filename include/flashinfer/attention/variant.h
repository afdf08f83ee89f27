// SPDX-License-Identifier: Apache-2.0
// User-written attention variants: what happens to queries, keys, logits and outputs, as code that
// is compiled into the kernels.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "flashinfer/export.h"
#include "flashinfer/tensor.h"

namespace flashinfer {

/// A value that a variant's code reads by its name, given to each Run(): `p.name` is a number, or
/// for a tensor `p.name[i]`, counted over its elements.
struct VariantParameter {
  std::string name;
  DType dtype = DType::kF32;  ///< of numbers: f32, i32, i64; of tensors: those, f16, bf16, u8, …
  bool is_tensor = false;
};

/// What code written for FlashInfer's macros (REGISTER_LOGITS_TRANSFORM and the like) comes with.
/// Types are C++ spellings: float, double, half, nv_bfloat16, int32_t, int64_t, uint8_t, bool, …
/// The code sees a double as a float.
struct VariantDeclaration {
  std::string struct_name;  ///< derived from AttentionVariantBase
  std::string text;
  std::vector<std::string> tensor_names;
  std::vector<std::string> tensor_types;
  std::vector<std::string> scalar_names;
  std::vector<std::string> scalar_types;
  /// False: outputs are weighted means, or sums without softmax, and REGISTER_OUTPUT_TRANSFORM is
  /// not called, as in that library's decode on CUDA cores.
  bool transforms_output = true;
};

/// A user's code for attention on CUDA devices, in C++ for the device; docs/variants.md shows how
/// to write it. It is compiled when an operator is planned with it, so an error in it is thrown
/// there: kCompile, with its file and line. The CPU backend, which compiles nothing, refuses.
///
/// Copies share what they hold. Two objects of the same code are the same variant.
class FLASHINFER_API AttentionVariant {
 public:
  /// Code that declares a struct `Variant`, after lines that name its parameters:
  ///
  ///     // param: f32 bias
  ///     // param: f32[] slopes
  ///
  /// A line `// struct: Name` says that it is written for FlashInfer's macros instead, and what
  /// struct it declares. `file_name` stands in the compiler's messages.
  static AttentionVariant FromText(std::string_view file_name, std::string_view text);

  /// The same of a file. Throws kIo when it cannot be read.
  static AttentionVariant FromFile(const std::string& path);

  /// Code written for FlashInfer's macros. Its parameters are the tensors, then the scalars.
  /// Tensors whose names begin with `maybe_` may be undefined.
  static AttentionVariant FromDeclaration(const VariantDeclaration& declaration);

  /// `sigmoid:0123456789abcdef`: its file or struct, and a hash of everything that it holds.
  const std::string& name() const;
  std::span<const VariantParameter> parameters() const;

  struct Code;
  const Code& code() const { return *code_; }

 private:
  explicit AttentionVariant(std::shared_ptr<const Code> code);
  std::shared_ptr<const Code> code_;
};

/// The value of a parameter in a Run(): a number, or a tensor.
struct VariantValue {
  VariantValue(double value) : number(value) {}                        // NOLINT: a value is meant
  VariantValue(const TensorView& value) : number(0), tensor(value) {}  // NOLINT: likewise
  double number;
  TensorView tensor;
};

}  // namespace flashinfer
