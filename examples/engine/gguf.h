// SPDX-License-Identifier: Apache-2.0
// GGUF files, versions 2 and 3: metadata and tensors, every byte checked before it is used.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/mapped_file.h"
#include "flashinfer/gemm.h"

namespace flashinfer::engine {

/// How a tensor's elements are stored, by the numbers that GGUF files use. Every type that has a
/// known size is opened; which of them can be computed with is for WeightFormatOf() to say.
enum class GgmlType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ6_K = 14,
  kBF16 = 30,
};

/// `F32`, `Q4_K`, …, in the file format's own spelling; `type 77` when it is not a known one.
std::string Name(GgmlType type);
/// The format that operators take, if they take this type.
std::optional<WeightFormat> WeightFormatOf(GgmlType type);

struct GgufTensor {
  std::string_view name;
  GgmlType type;
  int32_t num_dims;              ///< 1 to 4
  std::array<int64_t, 4> shape;  ///< row-major: the last of the `num_dims` is contiguous; then 1s
  std::span<const uint8_t> bytes;

  int64_t cols() const { return shape[static_cast<size_t>(num_dims - 1)]; }
  /// Product of all dimensions but the last.
  int64_t rows() const;
};

/// Metadata value types, by the numbers that GGUF files use.
enum class GgufValueType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};

/// An opened file. Views that it returns live as long as it does, also after a move.
///
/// Look-ups by key take any integer width where an integer is asked for, and any number where a
/// float is. They throw kInvalidArgument, naming file and key, when the value is of another type
/// or does not fit, and, without a default, when the key is missing.
class GgufFile {
 public:
  /// Throws kIo when the file cannot be read, kUnsupported for a version, byte order or tensor
  /// type that is known of but not read here, and kInvalidArgument for anything malformed:
  /// truncation, sizes beyond the file, overlapping or misaligned tensors, names that repeat or
  /// are not UTF-8.
  static GgufFile Open(const std::string& path);
  static GgufFile FromBytes(std::string name, std::span<const uint8_t> bytes);
  explicit GgufFile(MappedFile file);

  /// Whether `bytes` begin as a GGUF file does.
  static bool HasMagic(std::span<const uint8_t> bytes);

  const std::string& name() const { return file_.name(); }
  bool Has(std::string_view key) const;
  /// The number of elements of the array at `key`; nullopt when it is missing or is no array.
  std::optional<int64_t> ArraySize(std::string_view key) const;

  int64_t GetInt(std::string_view key) const;
  int64_t GetInt(std::string_view key, int64_t fallback) const;
  double GetFloat(std::string_view key) const;
  double GetFloat(std::string_view key, double fallback) const;
  bool GetBool(std::string_view key, bool fallback) const;
  /// Strings may hold any bytes: checking that they are UTF-8 is for the caller.
  std::string_view GetString(std::string_view key) const;
  std::string_view GetString(std::string_view key, std::string_view fallback) const;
  std::vector<std::string_view> GetStrings(std::string_view key) const;
  std::vector<int64_t> GetInts(std::string_view key) const;
  std::vector<float> GetFloats(std::string_view key) const;

  /// In the order of the file.
  std::span<const GgufTensor> tensors() const { return tensors_; }
  /// Null when there is none.
  const GgufTensor* FindTensor(std::string_view name) const;

  /// Takes a tensor's pages out of resident memory, as MappedFile::ReleasePages.
  void ReleasePages(const GgufTensor& tensor) const { file_.ReleasePages(tensor.bytes); }
  void ReleasePages(std::span<const uint8_t> range) const { file_.ReleasePages(range); }

 private:
  /// Where a value lies in the file; bounds and type were checked when it was read.
  struct Value {
    GgufValueType type;  ///< of the elements where `is_array`
    bool is_array;
    uint64_t num_elements;  ///< 1 unless `is_array`
    std::span<const uint8_t> bytes;
  };

  void ReadMetadata(class GgufCursor& cursor, uint64_t num_keys);
  void ReadTensors(class GgufCursor& cursor, uint64_t num_tensors);
  /// Fills all of `tensor` but name and bytes; returns offset and size in the data section.
  std::pair<uint64_t, uint64_t> ReadTensorInfo(class GgufCursor& cursor, uint64_t alignment,
                                               GgufTensor& tensor) const;
  void PlaceTensors(const class GgufCursor& cursor, uint64_t alignment,
                    std::span<const std::pair<uint64_t, uint64_t>> extents);
  const Value* Find(std::string_view key) const;
  const Value& Require(std::string_view key) const;
  [[noreturn]] void FailType(std::string_view key, const Value& value,
                             std::string_view accepted) const;

  MappedFile file_;
  std::unordered_map<std::string_view, Value> values_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string_view, size_t> tensor_index_;
};

}  // namespace flashinfer::engine
