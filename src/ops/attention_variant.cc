// SPDX-License-Identifier: Apache-2.0
// Reads the parameters of a user's attention variant, and names it by what it holds.
#include "ops/attention_variant.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "core/check.h"
#include "core/text.h"
#include "jit/hash.h"

namespace flashinfer {
namespace {

constexpr std::string_view kParamWords = "// param:";
constexpr std::string_view kStructWords = "// struct:";

/// Element types by the names that text forms have, and by those of C++.
struct TypeRow {
  std::string_view name;
  DType dtype;
};
constexpr std::array<TypeRow, 30> kTypes{{{"f32", DType::kF32},
                                          {"float", DType::kF32},
                                          {"double", DType::kF32},
                                          {"f16", DType::kF16},
                                          {"half", DType::kF16},
                                          {"__half", DType::kF16},
                                          {"nv_half", DType::kF16},
                                          {"bf16", DType::kBF16},
                                          {"nv_bfloat16", DType::kBF16},
                                          {"__nv_bfloat16", DType::kBF16},
                                          {"e4m3", DType::kE4M3},
                                          {"__nv_fp8_e4m3", DType::kE4M3},
                                          {"e5m2", DType::kE5M2},
                                          {"__nv_fp8_e5m2", DType::kE5M2},
                                          {"i8", DType::kI8},
                                          {"int8_t", DType::kI8},
                                          {"u8", DType::kU8},
                                          {"uint8_t", DType::kU8},
                                          {"bool", DType::kBool},
                                          {"i32", DType::kI32},
                                          {"int", DType::kI32},
                                          {"int32_t", DType::kI32},
                                          {"uint32_t", DType::kI32},
                                          {"i64", DType::kI64},
                                          {"long", DType::kI64},
                                          {"int64_t", DType::kI64},
                                          {"uint64_t", DType::kI64},
                                          {"size_t", DType::kI64},
                                          {"unsigned", DType::kI32},
                                          {"long long", DType::kI64}}};

bool IsName(std::string_view text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !text.empty() && is_letter(text.front()) &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

VariantParameter ParameterOf(std::string_view type, std::string_view name, bool is_tensor) {
  FLASHINFER_CHECK(IsName(name), "variant: '{}' is not a name for a parameter", name);
  const auto* row = std::find_if(kTypes.begin(), kTypes.end(),
                                 [&](const TypeRow& known) { return known.name == type; });
  std::vector<std::string> names;
  names.reserve(kTypes.size());
  for (const TypeRow& known : kTypes) names.emplace_back(known.name);
  FLASHINFER_CHECK(row != kTypes.end(),
                   "variant: '{}' is not a type for parameter {}; accepted: {}", type, name,
                   Join(names));
  const DType dtype = row->dtype;
  FLASHINFER_CHECK(is_tensor || dtype == DType::kF32 || dtype == DType::kI32 ||
                       dtype == DType::kI64 || dtype == DType::kBool,
                   "variant: parameter {} is a number of {}; accepted: f32, i32, i64, bool", name,
                   Name(dtype));
  return {.name = std::string(name), .dtype = dtype, .is_tensor = is_tensor};
}

/// `f32 bias` or `f32[] slopes`, and a comment.
VariantParameter ParseParameter(std::string_view line) {
  const std::vector<std::string_view> words = SplitWords(line);
  FLASHINFER_CHECK(words.size() >= 2,
                   "variant: '{}{}' is not a parameter; write '{} f32 name' or '{} f32[] name'",
                   kParamWords, line, kParamWords, kParamWords);
  std::string_view type = words[0];
  const bool is_tensor = type.ends_with("[]");
  if (is_tensor) type.remove_suffix(2);
  return ParameterOf(type, words[1], is_tensor);
}

/// What follows `words` at the begin of a line.
std::optional<std::string_view> After(std::string_view line, std::string_view words) {
  if (!line.starts_with(words)) return std::nullopt;
  line.remove_prefix(words.size());
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

AttentionVariant::Code ReadText(std::string_view file_name, std::string_view text) {
  // Without folders: a kernel's key must not depend on where a file lies.
  AttentionVariant::Code code{.name = {},
                              .file_name = std::string(file_name.substr(file_name.rfind('/') + 1)),
                              .struct_name = "Variant",
                              .uses_macros = false,
                              .transforms_output = true,
                              .text = std::string(text),
                              .parameters = {}};
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    if (const auto parameter = After(line, kParamWords)) {
      code.parameters.push_back(ParseParameter(*parameter));
    } else if (const auto name = After(line, kStructWords)) {
      const std::vector<std::string_view> words = SplitWords(*name);
      code.struct_name = words.empty() ? "" : words[0];
      code.uses_macros = true;
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return code;
}

/// A file's name without its ending.
std::string StemOf(std::string_view file_name) {
  std::string stem(file_name.substr(0, file_name.find('.')));
  for (char& c : stem) {
    if (!IsName(std::string(1, c)) && !(c >= '0' && c <= '9')) c = '_';
  }
  return stem;
}

/// Checks what is known before a compiler sees it, and gives the code its name.
std::shared_ptr<const AttentionVariant::Code> Finish(AttentionVariant::Code code,
                                                     std::string_view stem) {
  FLASHINFER_CHECK(IsName(code.struct_name), "variant: '{}' is not the name of a struct",
                   code.struct_name);
  FLASHINFER_CHECK(code.text.find(code.struct_name) != std::string::npos,
                   "variant: {} does not declare a struct {}", code.file_name, code.struct_name);
  FLASHINFER_CHECK(code.parameters.size() <= kMaxVariantParameters,
                   "variant: has {} parameters, at most {} are accepted", code.parameters.size(),
                   kMaxVariantParameters);
  FLASHINFER_CHECK(code.file_name.find_first_of("\"\\\n") == std::string::npos,
                   "variant: '{}' is no name of a file for the compiler", code.file_name);
  std::string all = fmt::format("{}\n{}\n{}\n{}\n", code.uses_macros, code.struct_name,
                                code.file_name, code.text);
  if (!code.transforms_output) all.append("untransformed outputs\n");
  for (const VariantParameter& p : code.parameters) {
    all.append(fmt::format("{}{} {}\n", Name(p.dtype), p.is_tensor ? "[]" : "", p.name));
  }
  for (auto p = code.parameters.begin(); p != code.parameters.end(); ++p) {
    FLASHINFER_CHECK(std::none_of(code.parameters.begin(), p,
                                  [&](const VariantParameter& q) { return q.name == p->name; }),
                     "variant: parameter {} is named twice", p->name);
  }
  code.name = fmt::format("{}:{}", stem, jit::Hash128(all).substr(0, 16));
  if (!code.text.ends_with('\n')) code.text.push_back('\n');
  return std::make_shared<const AttentionVariant::Code>(std::move(code));
}

}  // namespace

AttentionVariant::AttentionVariant(std::shared_ptr<const Code> code) : code_(std::move(code)) {}

AttentionVariant AttentionVariant::FromText(std::string_view file_name, std::string_view text) {
  Code code = ReadText(file_name, text);
  const std::string stem = StemOf(code.file_name);
  return AttentionVariant(Finish(std::move(code), stem));
}

AttentionVariant AttentionVariant::FromFile(const std::string& path) {
  // A folder opens, and throws when it is read.
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    throw Error(ErrorKind::kIo, path + ": is a folder");
  }
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw Error(ErrorKind::kIo, path + ": cannot be read");
  return FromText(path, text);
}

AttentionVariant AttentionVariant::FromDeclaration(const VariantDeclaration& d) {
  FLASHINFER_CHECK(d.tensor_names.size() == d.tensor_types.size(),
                   "variant: {} names of tensors, {} types", d.tensor_names.size(),
                   d.tensor_types.size());
  FLASHINFER_CHECK(d.scalar_names.size() == d.scalar_types.size(),
                   "variant: {} names of scalars, {} types", d.scalar_names.size(),
                   d.scalar_types.size());
  Code code{.name = {},
            .file_name = d.struct_name,
            .struct_name = d.struct_name,
            .uses_macros = true,
            .transforms_output = d.transforms_output,
            .text = d.text,
            .parameters = {}};
  code.parameters.reserve(d.tensor_names.size() + d.scalar_names.size());
  for (size_t i = 0; i < d.tensor_names.size(); ++i) {
    code.parameters.push_back(ParameterOf(d.tensor_types[i], d.tensor_names[i], true));
  }
  for (size_t i = 0; i < d.scalar_names.size(); ++i) {
    code.parameters.push_back(ParameterOf(d.scalar_types[i], d.scalar_names[i], false));
  }
  return AttentionVariant(Finish(std::move(code), d.struct_name));
}

const std::string& AttentionVariant::name() const { return code_->name; }
std::span<const VariantParameter> AttentionVariant::parameters() const { return code_->parameters; }

std::string ValueText(const AttentionVariant* value) {
  return value == nullptr ? "none" : value->name();
}

void ParseValue(std::string_view field, std::string_view text, const AttentionVariant*&) {
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("{}: '{}' names a variant, whose code is not at hand here", field, text));
}

void CheckVariantValues(const AttentionVariant* variant, std::span<const VariantValue> values,
                        Device device) {
  const size_t count = variant == nullptr ? 0 : variant->parameters().size();
  FLASHINFER_CHECK(values.size() == count, "variant_values: {} were given, {} has {} parameters",
                   values.size(), variant == nullptr ? "a plan without variant" : variant->name(),
                   count);
  for (size_t i = 0; i < count; ++i) {
    const VariantParameter& p = variant->parameters()[i];
    const TensorView& tensor = values[i].tensor;
    if (!p.is_tensor) {
      FLASHINFER_CHECK(!tensor.defined(), "variant_values[{}]: is a tensor, {} is a number", i,
                       p.name);
      continue;
    }
    const bool is_optional = variant->code().uses_macros && p.name.starts_with("maybe_");
    if (is_optional && !tensor.defined()) continue;
    CheckTensor(p.name, tensor).On(device).Is(p.dtype).Contiguous();
  }
}

}  // namespace flashinfer
