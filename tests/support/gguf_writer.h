// SPDX-License-Identifier: Apache-2.0
// A writer of GGUF files, so that tests make their own; it checks nothing, so that they may be bad.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "flashinfer/gemm.h"

namespace flashinfer::test {

/// Metadata and tensors in the order of the calls.
class GgufWriter {
 public:
  void Set(std::string_view key, uint32_t value);
  void Set(std::string_view key, int32_t value);
  void Set(std::string_view key, uint64_t value);
  void Set(std::string_view key, float value);
  void Set(std::string_view key, double value);
  void Set(std::string_view key, bool value);
  void Set(std::string_view key, std::string_view value);
  void Set(std::string_view key, const char* value) { Set(key, std::string_view(value)); }
  void Set(std::string_view key, const std::vector<std::string>& values);
  void Set(std::string_view key, const std::vector<int32_t>& values);
  void Set(std::string_view key, const std::vector<float>& values);
  /// A value of any type number and bytes.
  void SetRaw(std::string_view key, uint32_t type, std::span<const uint8_t> bytes);

  /// `shape` is row-major; `type` the number that the format gives it.
  void AddTensor(std::string_view name, const std::vector<int64_t>& shape, uint32_t type,
                 std::span<const uint8_t> bytes);
  /// Encodes `values` to `format`.
  void AddTensor(std::string_view name, const std::vector<int64_t>& shape, WeightFormat format,
                 std::span<const float> values);
  /// Lists a tensor of a chosen place in the data section, and adds no data.
  void AddTensorInfo(std::string_view name, const std::vector<int64_t>& shape, uint32_t type,
                     uint64_t offset);

  /// Also sets `general.alignment` when it is not the default.
  void set_alignment(uint32_t alignment);
  void set_version(uint32_t version) { version_ = version; }

  std::vector<uint8_t> Bytes() const;

 private:
  uint32_t version_ = 3;
  uint32_t alignment_ = 32;
  uint64_t num_keys_ = 0;
  uint64_t num_tensors_ = 0;
  std::vector<uint8_t> metadata_;
  std::vector<uint8_t> tensor_infos_;
  std::vector<uint8_t> data_;
};

/// The format's number for a tensor type.
uint32_t TypeNumberOf(WeightFormat format);

/// Appends the bytes of a number, or of a string with its length before it.
template <class T>
void AppendNumber(std::vector<uint8_t>& bytes, T number) {
  const auto* first = reinterpret_cast<const uint8_t*>(&number);
  bytes.insert(bytes.end(), first, first + sizeof(number));
}
void AppendString(std::vector<uint8_t>& bytes, std::string_view text);

void WriteWholeFile(const std::filesystem::path& path, std::span<const uint8_t> bytes);

}  // namespace flashinfer::test
