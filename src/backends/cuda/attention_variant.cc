// SPDX-License-Identifier: Apache-2.0
// Writes a user's variant into a unit, and its values into the parameters of a launch.
#include "backends/cuda/attention_variant.h"

#include <cstring>

#include "backends/cuda/problem.h"
#include "core/check.h"

namespace flashinfer::cuda {
namespace {

/// The type of a tensor's elements in C++; empty: it has none, and is read through VariantTensor.
std::string_view ElementType(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float";
    case DType::kI8:
      return "int8_t";
    case DType::kU8:
      return "uint8_t";
    case DType::kBool:
      return "bool";
    case DType::kI32:
      return "int32_t";
    case DType::kI64:
      return "int64_t";
    default:
      return "";
  }
}

/// Code for macros may write to its tensors.
std::string Member(const VariantParameter& p, bool is_const) {
  const std::string_view element = ElementType(p.dtype);
  if (!p.is_tensor) return fmt::format("  alignas(8) {} {};\n", element, p.name);
  if (element.empty()) {
    return fmt::format("  VariantTensor<{}> {};\n", jit::SourceText(p.dtype), p.name);
  }
  return fmt::format("  {}{}* {};\n", is_const ? "const " : "", element, p.name);
}

template <class T>
uint64_t Bits(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  return bits;
}

}  // namespace

jit::UserCode UserCodeOf(const AttentionVariant& variant, std::string_view spec_type) {
  const AttentionVariant::Code& code = variant.code();
  const char* const base = code.uses_macros ? "MacroCall" : "VariantCall";
  std::string text = fmt::format("struct VariantParams : {} {{\n", base);
  for (const VariantParameter& p : code.parameters) text.append(Member(p, !code.uses_macros));
  text.append(fmt::format("}};\nstatic_assert(sizeof(VariantParams) == {});\n",
                          sizeof(kernels::VariantCall) + 8 * code.parameters.size()));
  text.append(fmt::format("#line 1 \"{}\"\n{}", code.file_name, code.text));
  const std::string user = code.transforms_output
                               ? code.struct_name
                               : fmt::format("UntransformedOutput<{}>", code.struct_name);
  const std::string type =
      fmt::format("{}Variant<{}, VariantParams>", code.uses_macros ? "Macro" : "User", user);
  return {.name = "variant=" + code.name,
          .header = code.uses_macros ? "kernels/attention/variant_macros_block.cuh"
                                     : "kernels/attention/variant_user.cuh",
          .text = text,
          .params = fmt::format("{}::Params<{}::Params>", type, spec_type),
          .argument = type};
}

std::array<uint64_t, kMaxVariantParameters> PackVariantValues(
    const AttentionVariant& variant, std::span<const VariantValue> values) {
  std::array<uint64_t, kMaxVariantParameters> packed{};
  const std::span<const VariantParameter> parameters = variant.parameters();
  for (size_t i = 0; i < values.size(); ++i) {
    const VariantValue& value = values[i];
    if (parameters[i].is_tensor) {
      packed.at(i) = Bits(value.tensor.defined() ? value.tensor.data() : nullptr);
    } else if (parameters[i].dtype == DType::kF32) {
      packed.at(i) = Bits(static_cast<float>(value.number));
    } else {
      packed.at(i) = Bits(static_cast<int64_t>(value.number));  // narrower ones are its first bytes
    }
  }
  return packed;
}

std::vector<int32_t> VariantLengths(const AttentionTables& tables) {
  std::vector<int32_t> lengths;
  lengths.reserve(tables.q_begin.size() + tables.kv_len.size());
  for (int64_t begin : tables.q_begin) lengths.push_back(static_cast<int32_t>(begin));
  for (int64_t length : tables.kv_len) lengths.push_back(static_cast<int32_t>(length));
  return lengths;
}

kernels::VariantCall VariantCallOf(const AttentionProblem& p, const int32_t* lengths,
                                   int64_t num_requests) {
  return {.q_indptr = lengths,
          .kv_lens = lengths + num_requests + 1,
          .sm_scale = p.sm_scale,
          .logits_soft_cap = p.logits_soft_cap,
          .window_left = p.window_left,
          .num_qo_heads = p.num_qo_heads,
          .num_kv_heads = p.num_kv_heads,
          .num_requests = static_cast<int32_t>(num_requests)};
}

float LogitScale(const AttentionProblem& p) {
  return p.variant != nullptr && p.variant->code().uses_macros ? 1.0f : p.sm_scale;
}

bool AcceptsVariant(const AttentionProblem& p, std::string* why) {
  if (p.variant == nullptr || !p.variant->code().uses_macros) return true;
  // Their logits are not scaled yet when the code gets them.
  if (p.logits_soft_cap > 0) return Refuse(why, "logits_soft_cap must be 0 with code for macros");
  if (p.pos_encoding == PositionEncoding::kAlibi) {
    return Refuse(why, "pos_encoding must not be alibi with code for macros");
  }
  if (p.has_bias) return Refuse(why, "has_bias must be 0 with code for macros");
  return true;
}

}  // namespace flashinfer::cuda
