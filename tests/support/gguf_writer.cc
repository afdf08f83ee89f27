// SPDX-License-Identifier: Apache-2.0
// Writing of GGUF files, version 3 unless told otherwise.
#include "support/gguf_writer.h"

#include <fstream>
#include <stdexcept>

#include "support/gguf_blocks.h"

namespace flashinfer::test {
namespace {

enum ValueType : uint32_t {
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kFloat64 = 12,
};

template <class T>
std::vector<uint8_t> BytesOf(T number) {
  std::vector<uint8_t> bytes;
  AppendNumber(bytes, number);
  return bytes;
}

std::vector<uint8_t> ArrayHead(ValueType type, size_t size) {
  std::vector<uint8_t> bytes;
  AppendNumber(bytes, static_cast<uint32_t>(type));
  AppendNumber(bytes, static_cast<uint64_t>(size));
  return bytes;
}

void Pad(std::vector<uint8_t>& bytes, size_t alignment) {
  while (bytes.size() % alignment != 0) bytes.push_back(0);
}

}  // namespace

void AppendString(std::vector<uint8_t>& bytes, std::string_view text) {
  AppendNumber(bytes, static_cast<uint64_t>(text.size()));
  bytes.insert(bytes.end(), text.begin(), text.end());
}

uint32_t TypeNumberOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return 0;
    case WeightFormat::kF16:
      return 1;
    case WeightFormat::kBF16:
      return 30;
    case WeightFormat::kQ4_0:
      return 2;
    case WeightFormat::kQ4_1:
      return 3;
    case WeightFormat::kQ8_0:
      return 8;
    case WeightFormat::kQ4_K:
      return 12;
    case WeightFormat::kQ6_K:
      return 14;
    case WeightFormat::kQ5_0:
      return 6;
    case WeightFormat::kQ5_1:
      return 7;
    case WeightFormat::kQ5_K:
      return 13;
    case WeightFormat::kMXFP4:
      return 39;
  }
  throw std::invalid_argument("no such weight format");
}

void GgufWriter::SetRaw(std::string_view key, uint32_t type, std::span<const uint8_t> bytes) {
  AppendString(metadata_, key);
  AppendNumber(metadata_, type);
  metadata_.insert(metadata_.end(), bytes.begin(), bytes.end());
  ++num_keys_;
}

void GgufWriter::Set(std::string_view key, uint32_t value) { SetRaw(key, kUint32, BytesOf(value)); }
void GgufWriter::Set(std::string_view key, int32_t value) { SetRaw(key, kInt32, BytesOf(value)); }
void GgufWriter::Set(std::string_view key, uint64_t value) { SetRaw(key, kUint64, BytesOf(value)); }
void GgufWriter::Set(std::string_view key, float value) { SetRaw(key, kFloat32, BytesOf(value)); }
void GgufWriter::Set(std::string_view key, double value) { SetRaw(key, kFloat64, BytesOf(value)); }
void GgufWriter::Set(std::string_view key, bool value) {
  SetRaw(key, kBool, BytesOf(static_cast<uint8_t>(value)));
}

void GgufWriter::Set(std::string_view key, std::string_view value) {
  std::vector<uint8_t> bytes;
  AppendString(bytes, value);
  SetRaw(key, kString, bytes);
}

void GgufWriter::Set(std::string_view key, const std::vector<std::string>& values) {
  std::vector<uint8_t> bytes = ArrayHead(kString, values.size());
  for (const std::string& value : values) AppendString(bytes, value);
  SetRaw(key, kArray, bytes);
}

void GgufWriter::Set(std::string_view key, const std::vector<int32_t>& values) {
  std::vector<uint8_t> bytes = ArrayHead(kInt32, values.size());
  for (const int32_t value : values) AppendNumber(bytes, value);
  SetRaw(key, kArray, bytes);
}

void GgufWriter::Set(std::string_view key, const std::vector<float>& values) {
  std::vector<uint8_t> bytes = ArrayHead(kFloat32, values.size());
  for (const float value : values) AppendNumber(bytes, value);
  SetRaw(key, kArray, bytes);
}

void GgufWriter::set_alignment(uint32_t alignment) {
  Set("general.alignment", alignment);
  alignment_ = alignment;
}

void GgufWriter::AddTensorInfo(std::string_view name, const std::vector<int64_t>& shape,
                               uint32_t type, uint64_t offset) {
  AppendString(tensor_infos_, name);
  AppendNumber(tensor_infos_, static_cast<uint32_t>(shape.size()));
  for (auto size = shape.rbegin(); size != shape.rend(); ++size) AppendNumber(tensor_infos_, *size);
  AppendNumber(tensor_infos_, type);
  AppendNumber(tensor_infos_, offset);
  ++num_tensors_;
}

void GgufWriter::AddTensor(std::string_view name, const std::vector<int64_t>& shape, uint32_t type,
                           std::span<const uint8_t> bytes) {
  Pad(data_, alignment_);
  AddTensorInfo(name, shape, type, data_.size());
  data_.insert(data_.end(), bytes.begin(), bytes.end());
}

void GgufWriter::AddTensor(std::string_view name, const std::vector<int64_t>& shape,
                           WeightFormat format, std::span<const float> values) {
  if (shape.back() % ShapeOf(format).num_values != 0) {
    throw std::invalid_argument(std::string(name) + ": rows are no whole blocks");
  }
  AddTensor(name, shape, TypeNumberOf(format), Quantize(format, values));
}

std::vector<uint8_t> GgufWriter::Bytes() const {
  std::vector<uint8_t> bytes = {'G', 'G', 'U', 'F'};
  AppendNumber(bytes, version_);
  AppendNumber(bytes, num_tensors_);
  AppendNumber(bytes, num_keys_);
  bytes.insert(bytes.end(), metadata_.begin(), metadata_.end());
  bytes.insert(bytes.end(), tensor_infos_.begin(), tensor_infos_.end());
  Pad(bytes, alignment_);
  bytes.insert(bytes.end(), data_.begin(), data_.end());
  return bytes;
}

void WriteWholeFile(const std::filesystem::path& path, std::span<const uint8_t> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace flashinfer::test
