// SPDX-License-Identifier: Apache-2.0
// What a user's attention variant holds, and checks of the values that it is given.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "flashinfer/attention/variant.h"

namespace flashinfer {

/// Kernels take their parameters with those of a variant in 4 KB.
inline constexpr size_t kMaxVariantParameters = 32;

struct AttentionVariant::Code {
  std::string name;         ///< `sigmoid:0123456789abcdef`
  std::string file_name;    ///< in the compiler's messages
  std::string struct_name;  ///< that the text declares
  bool uses_macros = false;
  bool transforms_output = true;  ///< see VariantDeclaration
  std::string text;
  std::vector<VariantParameter> parameters;
};

std::string ValueText(const AttentionVariant* value);
/// Never parses: throws kInvalidArgument that says why.
void ParseValue(std::string_view field, std::string_view text, const AttentionVariant*& value);

/// Values against the parameters of `variant`; null: there must be none.
void CheckVariantValues(const AttentionVariant* variant, std::span<const VariantValue> values,
                        Device device);

}  // namespace flashinfer
