// SPDX-License-Identifier: Apache-2.0
// Reads the files that run_vectors.py wrote.
#include "vector_case.h"

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/convert.h"
#include "core/element.h"
#include "support/test_files.h"

namespace flashinfer::test {
namespace {

/// Calls `visit(value, i)` for each number of type T in `bytes`.
template <class T, class Visit>
void ForEachNumber(const std::string& bytes, Visit&& visit) {
  for (size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    visit(value);
  }
}

template <class T>
std::vector<double> Numbers(const std::string& bytes) {
  std::vector<double> values;
  values.reserve(bytes.size() / sizeof(T));
  ForEachNumber<T>(bytes, [&](T value) { values.push_back(static_cast<double>(value)); });
  return values;
}

/// Of a type that `bits` of type Bits hold.
template <class T, class Bits>
std::vector<double> Floats(const std::string& bytes) {
  std::vector<double> values;
  values.reserve(bytes.size() / sizeof(Bits));
  ForEachNumber<Bits>(bytes, [&](Bits bits) { values.push_back(ToFloat(T{bits})); });
  return values;
}

std::vector<double> Nibbles(const std::string& bytes, int64_t count) {
  std::vector<double> values;
  values.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const int byte = static_cast<uint8_t>(bytes[static_cast<size_t>(i / 2)]);
    values.push_back(ToFloat(E2M1{static_cast<uint8_t>(i % 2 == 0 ? byte & 15 : byte >> 4)}));
  }
  return values;
}

std::vector<double> Decode(const std::string& dtype, const std::string& bytes, int64_t count) {
  if (dtype == "f64") return Numbers<double>(bytes);
  if (dtype == "f32") return Numbers<float>(bytes);
  if (dtype == "f16") return Floats<F16, uint16_t>(bytes);
  if (dtype == "bf16") return Floats<BF16, uint16_t>(bytes);
  if (dtype == "e4m3") return Floats<E4M3, uint8_t>(bytes);
  if (dtype == "e5m2") return Floats<E5M2, uint8_t>(bytes);
  if (dtype == "e8m0") return Floats<E8M0, uint8_t>(bytes);
  if (dtype == "e2m1x2") return Nibbles(bytes, count);
  if (dtype == "u8" || dtype == "bool") return Numbers<uint8_t>(bytes);
  if (dtype == "i8") return Numbers<int8_t>(bytes);
  if (dtype == "i32") return Numbers<int32_t>(bytes);
  if (dtype == "i64") return Numbers<int64_t>(bytes);
  return {};
}

std::vector<std::optional<VectorTensor>> ReadTensors(const nlohmann::json& list,
                                                     const std::filesystem::path& folder) {
  std::vector<std::optional<VectorTensor>> tensors;
  tensors.reserve(list.size());
  for (const auto& json : list) {
    if (json.is_null()) {
      tensors.emplace_back();
      continue;
    }
    VectorTensor tensor{json.at("dtype"), json.at("shape"), {}};
    const int64_t count =
        std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
    tensor.values =
        Decode(tensor.dtype, ReadWholeFile(folder / json.at("file").get<std::string>()), count);
    tensors.emplace_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace

int64_t VectorTensor::SizeFrom(int64_t axis) const {
  if (axis < 0) axis += static_cast<int64_t>(shape.size());
  return std::accumulate(shape.begin() + axis, shape.end(), int64_t{1}, std::multiplies<>());
}

std::vector<VectorCase> ReadVectorCases(const std::string& index) {
  const std::filesystem::path folder = std::filesystem::path(index).parent_path();
  std::vector<VectorCase> cases;
  for (const auto& json : nlohmann::json::parse(ReadWholeFile(index))) {
    std::map<std::string, double> attributes;
    for (const auto& [name, value] : json.at("attributes").items()) {
      if (value.is_number()) attributes[name] = value;
    }
    cases.push_back({json.at("name"), json.at("op"), std::move(attributes),
                     ReadTensors(json.at("inputs"), folder),
                     ReadTensors(json.at("outputs"), folder)});
  }
  return cases;
}

HostTensor MakeTensor(const VectorTensor& tensor, const Dims& shape) {
  HostTensor result(ParseDType(tensor.dtype), shape);
  const TensorView flat(result.view().data(), result.view().dtype(), {tensor.num_elements()});
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    WriteElement(flat, i, tensor.values[static_cast<size_t>(i)]);
  }
  return result;
}

}  // namespace flashinfer::test
