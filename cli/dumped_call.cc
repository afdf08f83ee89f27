// SPDX-License-Identifier: Apache-2.0
// Reading the folder of a dumped call.
#include "dumped_call.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/element.h"
#include "flashinfer/error.h"
#include "session.h"

namespace flashinfer::cli {
namespace {

using Json = nlohmann::json;

Json ReadJson(const std::filesystem::path& path) {
  try {
    return Json::parse(ReadTextFile(path.string()));
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kIo, fmt::format("{}: {}", path.string(), error.what()));
  }
}

Dims DimsOf(const Json& json) {
  const auto values = json.get<std::vector<int64_t>>();
  return Dims(values);
}

/// Elements from the first to the last one in memory, plus 1; 0 for none.
int64_t Span(const Dims& shape, const Dims& strides) {
  int64_t span = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 0) return 0;
    if (strides[i] < 0) throw Error(ErrorKind::kIo, "negative strides are not replayed");
    span += (shape[i] - 1) * strides[i];
  }
  return span;
}

DumpedTensor ReadTensor(const Json& json, const std::filesystem::path& folder) {
  DumpedTensor tensor;
  if (json.is_null()) return tensor;
  const DType dtype = ParseDType(json.at("dtype").get<std::string>());
  const Dims shape = DimsOf(json.at("shape"));
  const Dims strides = DimsOf(json.at("strides"));
  const int64_t size = SizeBytes(dtype);
  if (!json.contains("data")) {
    tensor.view = TensorView(static_cast<void*>(nullptr), dtype, shape, strides);
    tensor.has_data = false;
    return tensor;
  }
  const std::filesystem::path path = folder / json.at("data").get<std::string>();
  const std::string data = ReadTextFile(path.string());
  tensor.memory.resize(static_cast<size_t>(Span(shape, strides) * size));
  tensor.view = TensorView(tensor.memory.data(), dtype, shape, strides);
  const int64_t expected = tensor.view.num_elements() * size;
  if (static_cast<int64_t>(data.size()) != expected) {
    throw Error(ErrorKind::kIo,
                fmt::format("{}: has {} bytes, expected {}", path.string(), data.size(), expected));
  }
  const char* from = data.data();
  ForEachOffset(tensor.view, [&](int64_t offset) {
    std::copy_n(from, size, tensor.memory.data() + offset * size);
    from += size;
  });
  return tensor;
}

}  // namespace

DumpedCall::DumpedCall(const std::filesystem::path& folder)
    : folder_(folder), name_(folder.filename().string()) {
  const Json json = ReadJson(folder / "call.json");
  try {
    op_ = json.at("op").get<std::string>();
    for (const auto& [name, value] : json.at("arguments").items()) {
      if (value.is_string()) {
        texts_[name] = value.get<std::string>();
      } else {
        tensors_[name] = ReadTensor(value, folder);
      }
    }
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kIo, fmt::format("{}/call.json: {}", folder.string(), error.what()));
  }
}

bool DumpedCall::has_all_data() const {
  for (const auto& [name, tensor] : tensors_) {
    if (!tensor.has_data) return false;
  }
  return true;
}

void DumpedCall::Throw(std::string_view argument, std::string_view problem) const {
  throw Error(ErrorKind::kInvalidArgument, fmt::format("{}: {}: {}", name_, argument, problem));
}

TensorView DumpedCall::Tensor(std::string_view argument) const {
  const auto at = tensors_.find(std::string(argument));
  if (at == tensors_.end()) Throw(argument, "is no tensor of the dump");
  return at->second.view;
}

bool DumpedCall::Has(std::string_view argument) const {
  const std::string key(argument);
  return tensors_.count(key) > 0 || texts_.count(key) > 0;
}

const std::string& DumpedCall::Text(std::string_view argument) const {
  const auto at = texts_.find(std::string(argument));
  if (at == texts_.end()) Throw(argument, "is no value of the dump");
  return at->second;
}

int64_t DumpedCall::Int(std::string_view argument) const {
  const std::string& text = Text(argument);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) Throw(argument, "is no integer");
  return value;
}

float DumpedCall::Float(std::string_view argument) const {
  const std::string& text = Text(argument);
  char* end = nullptr;
  const float value = std::strtof(text.c_str(), &end);
  if (text.empty() || *end != '\0') Throw(argument, "is no number");
  return value;
}

Fields DumpedCall::ProblemFields(std::string_view argument) const {
  const std::string& text = Text(argument);
  Fields fields;
  for (size_t at = text.find(' '); at != std::string::npos;) {
    const size_t end = text.find(' ', at + 1);
    const std::string word = text.substr(at + 1, end == std::string::npos ? end : end - at - 1);
    const size_t equals = word.find('=');
    if (equals == std::string::npos) Throw(argument, "is not made of field=value");
    fields[word.substr(0, equals)] = word.substr(equals + 1);
    at = end;
  }
  return fields;
}

std::string DumpedCall::Object(std::string_view argument) const {
  // The folder's name begins with the start and the id of the process.
  const size_t first = name_.find('_');
  return name_.substr(0, name_.find('_', first + 1)) + " " + Text(argument);
}

std::optional<std::map<std::string, DumpedTensor>> DumpedCall::Returned() const {
  if (!std::filesystem::exists(folder_ / "return.json")) return std::nullopt;
  const Json json = ReadJson(folder_ / "return.json");
  std::map<std::string, DumpedTensor> tensors;
  try {
    for (const auto& [name, value] : json.at("arguments").items()) {
      tensors[name] = ReadTensor(value, folder_);
    }
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kIo, fmt::format("{}/return.json: {}", name_, error.what()));
  }
  return tensors;
}

}  // namespace flashinfer::cli
