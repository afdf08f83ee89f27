// SPDX-License-Identifier: Apache-2.0
// Look-ups of a GGUF file's metadata.
#include <iterator>
#include <limits>

#include "engine/gguf.h"
#include "engine/gguf_value.h"
#include "engine/read_error.h"

namespace flashinfer::engine {
namespace {

constexpr std::string_view kValueTypeNames[] = {"uint8",  "int8",    "uint16", "int16",  "uint32",
                                                "int32",  "float32", "bool",   "string", "array",
                                                "uint64", "int64",   "float64"};
static_assert(std::size(kValueTypeNames) == kNumGgufValueTypes);

/// The integer at `index`, nullopt when it exceeds int64. `type` must be an integer type.
std::optional<int64_t> LoadInt(GgufValueType type, std::span<const uint8_t> bytes, uint64_t index) {
  switch (type) {
    case GgufValueType::kUint8:
      return LoadValue<uint8_t>(bytes, index);
    case GgufValueType::kInt8:
      return LoadValue<int8_t>(bytes, index);
    case GgufValueType::kUint16:
      return LoadValue<uint16_t>(bytes, index);
    case GgufValueType::kInt16:
      return LoadValue<int16_t>(bytes, index);
    case GgufValueType::kUint32:
      return LoadValue<uint32_t>(bytes, index);
    case GgufValueType::kInt32:
      return LoadValue<int32_t>(bytes, index);
    case GgufValueType::kInt64:
      return LoadValue<int64_t>(bytes, index);
    default: {
      const uint64_t value = LoadValue<uint64_t>(bytes, index);
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(value);
    }
  }
}

bool IsFloat(GgufValueType type) {
  return type == GgufValueType::kFloat32 || type == GgufValueType::kFloat64;
}

bool IsInt(GgufValueType type) {
  return !IsFloat(type) && type != GgufValueType::kBool && type != GgufValueType::kString &&
         type != GgufValueType::kArray;
}

}  // namespace

std::string_view Name(GgufValueType type) { return kValueTypeNames[static_cast<size_t>(type)]; }

bool GgufFile::Has(std::string_view key) const { return Find(key) != nullptr; }

std::optional<int64_t> GgufFile::ArraySize(std::string_view key) const {
  const Value* value = Find(key);
  if (value == nullptr || !value->is_array) return std::nullopt;
  return static_cast<int64_t>(value->num_elements);
}

const GgufFile::Value* GgufFile::Find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

const GgufFile::Value& GgufFile::Require(std::string_view key) const {
  const Value* value = Find(key);
  if (value == nullptr) Fail(ErrorKind::kInvalidArgument, "{}: has no {}", name(), Quoted(key));
  return *value;
}

void GgufFile::FailType(std::string_view key, const Value& value, std::string_view accepted) const {
  Fail(ErrorKind::kInvalidArgument, "{}: {} is {}{}, {} is accepted", name(), Quoted(key),
       value.is_array ? "an array of " : "", Name(value.type), accepted);
}

int64_t GgufFile::GetInt(std::string_view key) const {
  const Value& value = Require(key);
  if (value.is_array || !IsInt(value.type)) FailType(key, value, "an integer");
  const std::optional<int64_t> number = LoadInt(value.type, value.bytes, 0);
  if (!number) FailType(key, value, "an integer less than 2^63");
  return *number;
}

int64_t GgufFile::GetInt(std::string_view key, int64_t fallback) const {
  return Has(key) ? GetInt(key) : fallback;
}

double GgufFile::GetFloat(std::string_view key) const {
  const Value& value = Require(key);
  if (!value.is_array && value.type == GgufValueType::kFloat32)
    return LoadValue<float>(value.bytes);
  if (!value.is_array && value.type == GgufValueType::kFloat64)
    return LoadValue<double>(value.bytes);
  if (value.is_array || !IsInt(value.type)) FailType(key, value, "a number");
  return static_cast<double>(GetInt(key));
}

double GgufFile::GetFloat(std::string_view key, double fallback) const {
  return Has(key) ? GetFloat(key) : fallback;
}

bool GgufFile::GetBool(std::string_view key, bool fallback) const {
  const Value* value = Find(key);
  if (value == nullptr) return fallback;
  if (value->is_array || value->type != GgufValueType::kBool) FailType(key, *value, "a bool");
  return value->bytes[0] != 0;
}

std::string_view GgufFile::GetString(std::string_view key) const {
  const Value& value = Require(key);
  if (value.is_array || value.type != GgufValueType::kString) FailType(key, value, "a string");
  return AsText(value.bytes.subspan(sizeof(uint64_t)));
}

std::string_view GgufFile::GetString(std::string_view key, std::string_view fallback) const {
  return Has(key) ? GetString(key) : fallback;
}

std::vector<std::string_view> GgufFile::GetStrings(std::string_view key) const {
  const Value& value = Require(key);
  if (!value.is_array || value.type != GgufValueType::kString) {
    FailType(key, value, "an array of strings");
  }
  std::vector<std::string_view> strings;
  strings.reserve(value.num_elements);
  auto rest = value.bytes;
  for (uint64_t i = 0; i < value.num_elements; ++i) {
    const uint64_t size = LoadValue<uint64_t>(rest);
    strings.push_back(AsText(rest.subspan(sizeof(uint64_t), size)));
    rest = rest.subspan(sizeof(uint64_t) + size);
  }
  return strings;
}

std::vector<int64_t> GgufFile::GetInts(std::string_view key) const {
  const Value& value = Require(key);
  if (!value.is_array || !IsInt(value.type)) FailType(key, value, "an array of integers");
  std::vector<int64_t> numbers(value.num_elements);
  for (uint64_t i = 0; i < value.num_elements; ++i) {
    const std::optional<int64_t> number = LoadInt(value.type, value.bytes, i);
    if (!number) FailType(key, value, "an array of integers less than 2^63");
    numbers[i] = *number;
  }
  return numbers;
}

std::vector<float> GgufFile::GetFloats(std::string_view key) const {
  const Value& value = Require(key);
  if (!value.is_array || value.type != GgufValueType::kFloat32) {
    FailType(key, value, "an array of float32");
  }
  std::vector<float> numbers(value.num_elements);
  for (uint64_t i = 0; i < value.num_elements; ++i) numbers[i] = LoadValue<float>(value.bytes, i);
  return numbers;
}

}  // namespace flashinfer::engine
