// SPDX-License-Identifier: Apache-2.0
// Reading of GGUF files, after the format's specification in the ggml repository, docs/gguf.md.
#include "engine/gguf.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "engine/gguf_value.h"
#include "engine/read_error.h"
#include "engine/utf8.h"

namespace flashinfer::engine {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint64_t kMaxNameBytes = 65535;
constexpr int64_t kDefaultAlignment = 32;

struct GgmlTypeRow {
  uint32_t id;
  std::string_view name;
  uint64_t block_size;   // values
  uint64_t block_bytes;  // bytes
  std::optional<WeightFormat> format;
};

constexpr GgmlTypeRow kGgmlTypes[] = {
    {0, "F32", 1, 4, WeightFormat::kF32},
    {1, "F16", 1, 2, WeightFormat::kF16},
    {2, "Q4_0", 32, 18, WeightFormat::kQ4_0},
    {3, "Q4_1", 32, 20, WeightFormat::kQ4_1},
    {6, "Q5_0", 32, 22, WeightFormat::kQ5_0},
    {7, "Q5_1", 32, 24, WeightFormat::kQ5_1},
    {8, "Q8_0", 32, 34, WeightFormat::kQ8_0},
    {10, "Q2_K", 256, 84, {}},
    {11, "Q3_K", 256, 110, {}},
    {12, "Q4_K", 256, 144, WeightFormat::kQ4_K},
    {13, "Q5_K", 256, 176, WeightFormat::kQ5_K},
    {14, "Q6_K", 256, 210, WeightFormat::kQ6_K},
    {16, "IQ2_XXS", 256, 66, {}},
    {17, "IQ2_XS", 256, 74, {}},
    {18, "IQ3_XXS", 256, 98, {}},
    {19, "IQ1_S", 256, 50, {}},
    {20, "IQ4_NL", 32, 18, {}},
    {21, "IQ3_S", 256, 110, {}},
    {22, "IQ2_S", 256, 82, {}},
    {23, "IQ4_XS", 256, 136, {}},
    {24, "I8", 1, 1, {}},
    {25, "I16", 1, 2, {}},
    {26, "I32", 1, 4, {}},
    {27, "I64", 1, 8, {}},
    {28, "F64", 1, 8, {}},
    {29, "IQ1_M", 256, 56, {}},
    {30, "BF16", 1, 2, WeightFormat::kBF16},
    {34, "TQ1_0", 256, 54, {}},
    {35, "TQ2_0", 256, 66, {}},
    {39, "MXFP4", 32, 17, WeightFormat::kMXFP4},
    {40, "NVFP4", 64, 36, {}},
};

const GgmlTypeRow* FindType(GgmlType type) {
  const auto* row = std::ranges::find(kGgmlTypes, static_cast<uint32_t>(type), &GgmlTypeRow::id);
  return row == std::end(kGgmlTypes) ? nullptr : row;
}

constexpr uint64_t kValueBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};  // string: at least

/// Valid UTF-8 without control characters.
bool IsName(std::string_view text) {
  for (size_t position = 0; position < text.size();) {
    const Utf8Char c = DecodeUtf8(text, position);
    if (c.form != Utf8Form::kValid || c.code_point < 0x20 || c.code_point == 0x7f) return false;
    position += static_cast<size_t>(c.num_bytes);
  }
  return true;
}

}  // namespace

/// Reads forwards; every step checks that what it takes is there.
class GgufCursor {
 public:
  explicit GgufCursor(const MappedFile& file) : name_(file.name()), bytes_(file.bytes()) {}

  uint64_t position() const { return position_; }
  uint64_t num_left() const { return bytes_.size() - position_; }

  std::span<const uint8_t> Take(uint64_t num_bytes, std::string_view what) {
    if (num_bytes > num_left()) {
      Fail(ErrorKind::kInvalidArgument,
           "{}: {} at byte {} needs {} bytes, the file has {} more: it is truncated or damaged",
           name_, what, position_, num_bytes, num_left());
    }
    const auto taken = bytes_.subspan(position_, num_bytes);
    position_ += num_bytes;
    return taken;
  }

  template <class T>
  T Read(std::string_view what) {
    return LoadValue<T>(Take(sizeof(T), what));
  }

  std::string_view ReadString(std::string_view what) {
    return AsText(Take(Read<uint64_t>(what), what));
  }

  /// A key or a tensor's name.
  std::string_view ReadName(std::string_view what) {
    const uint64_t start = position_;
    const std::string_view text = ReadString(what);
    if (text.empty() || text.size() > kMaxNameBytes || !IsName(text)) {
      Fail(ErrorKind::kInvalidArgument,
           "{}: {} at byte {} is {}: it must be UTF-8 text of 1 to {} bytes", name_, what, start,
           Quoted(text), kMaxNameBytes);
    }
    return text;
  }

  /// Reads a value type's number.
  GgufValueType ReadValueType(std::string_view key) {
    const uint32_t id = Read<uint32_t>("a value type");
    if (id >= kNumGgufValueTypes) {
      Fail(ErrorKind::kInvalidArgument, "{}: {} has value type {}, 0 to {} are accepted", name_,
           Quoted(key), id, kNumGgufValueTypes - 1);
    }
    return GgufValueType{id};
  }

 private:
  const std::string& name_;
  std::span<const uint8_t> bytes_;
  uint64_t position_ = 0;
};

std::string Name(GgmlType type) {
  const GgmlTypeRow* row = FindType(type);
  return row ? std::string(row->name) : fmt::format("type {}", static_cast<uint32_t>(type));
}

std::optional<WeightFormat> WeightFormatOf(GgmlType type) {
  const GgmlTypeRow* row = FindType(type);
  return row ? row->format : std::nullopt;
}

int64_t GgufTensor::rows() const {
  const auto dims = std::span(shape).first(static_cast<size_t>(num_dims - 1));
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

GgufFile GgufFile::Open(const std::string& path) { return GgufFile(MappedFile::Open(path)); }

GgufFile GgufFile::FromBytes(std::string name, std::span<const uint8_t> bytes) {
  return GgufFile(MappedFile::FromBytes(std::move(name), bytes));
}

bool GgufFile::HasMagic(std::span<const uint8_t> bytes) {
  return AsText(bytes.first(std::min(bytes.size(), kMagic.size()))) == kMagic;
}

GgufFile::GgufFile(MappedFile file) : file_(std::move(file)) {
  GgufCursor cursor(file_);
  const auto magic = cursor.Take(kMagic.size(), "the magic 'GGUF'");
  if (!HasMagic(magic)) {
    Fail(ErrorKind::kInvalidArgument, "{}: begins with {}, a GGUF file with 'GGUF'", name(),
         Quoted(AsText(magic)));
  }
  const uint32_t version = cursor.Read<uint32_t>("the version");
  if (version != 2 && version != 3) {
    const bool is_swapped = version != 0 && (version & 0xffff) == 0;
    Fail(version == 1 || is_swapped ? ErrorKind::kUnsupported : ErrorKind::kInvalidArgument,
         "{}: GGUF version {}{}, 2 and 3 are accepted", name(), version,
         is_swapped ? " (big-endian)" : "");
  }
  const uint64_t num_tensors = cursor.Read<uint64_t>("the number of tensors");
  const uint64_t num_keys = cursor.Read<uint64_t>("the number of keys");
  constexpr uint64_t kMinKeyBytes = 8 + 1 + 4 + 1;
  constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;
  if (num_keys > cursor.num_left() / kMinKeyBytes ||
      num_tensors > cursor.num_left() / kMinTensorBytes) {
    Fail(ErrorKind::kInvalidArgument,
         "{}: claims {} keys and {} tensors, too many for its size of {} bytes", name(), num_keys,
         num_tensors, file_.bytes().size());
  }
  ReadMetadata(cursor, num_keys);
  ReadTensors(cursor, num_tensors);
}

void GgufFile::ReadMetadata(GgufCursor& cursor, uint64_t num_keys) {
  values_.reserve(num_keys);
  for (uint64_t i = 0; i < num_keys; ++i) {
    const std::string_view key = cursor.ReadName("a key");
    Value value{cursor.ReadValueType(key), false, 1, {}};
    if (value.type == GgufValueType::kArray) {
      value.is_array = true;
      value.type = cursor.ReadValueType(key);
      value.num_elements = cursor.Read<uint64_t>("an array's size");
      if (value.type == GgufValueType::kArray) {
        Fail(ErrorKind::kUnsupported, "{}: {} is an array of arrays, which is not read", name(),
             Quoted(key));
      }
    }
    const uint64_t element_bytes = kValueBytes[static_cast<size_t>(value.type)];
    if (value.num_elements > cursor.num_left() / element_bytes) {
      Fail(ErrorKind::kInvalidArgument, "{}: {} has {} elements of {}, the file has {} bytes more",
           name(), Quoted(key), value.num_elements, Name(value.type), cursor.num_left());
    }
    if (value.type == GgufValueType::kString) {
      const uint64_t start = cursor.position();
      for (uint64_t n = 0; n < value.num_elements; ++n) cursor.ReadString("a string");
      value.bytes = file_.bytes().subspan(start, cursor.position() - start);
    } else {
      value.bytes = cursor.Take(value.num_elements * element_bytes, "a value");
    }
    const auto is_no_bool = [](uint8_t byte) { return byte > 1; };
    if (value.type == GgufValueType::kBool && std::ranges::any_of(value.bytes, is_no_bool)) {
      Fail(ErrorKind::kInvalidArgument, "{}: {} is a bool that is neither 0 nor 1", name(),
           Quoted(key));
    }
    if (!values_.emplace(key, value).second) {
      Fail(ErrorKind::kInvalidArgument, "{}: key {} occurs twice", name(), Quoted(key));
    }
  }
}

void GgufFile::ReadTensors(GgufCursor& cursor, uint64_t num_tensors) {
  constexpr std::string_view kAlignmentKey = "general.alignment";
  const int64_t alignment = GetInt(kAlignmentKey, kDefaultAlignment);
  // 8 is the specification's least; it also keeps every element type aligned in memory.
  if (alignment < 8 || alignment > 1 << 20 || (alignment & (alignment - 1)) != 0) {
    Fail(ErrorKind::kInvalidArgument, "{}: {} is {}, a power of two from 8 to 2^20 is accepted",
         name(), kAlignmentKey, alignment);
  }
  tensors_.reserve(num_tensors);
  tensor_index_.reserve(num_tensors);
  std::vector<std::pair<uint64_t, uint64_t>> extents;  // offset and size in the data section
  extents.reserve(num_tensors);
  for (uint64_t i = 0; i < num_tensors; ++i) {
    GgufTensor tensor{cursor.ReadName("a tensor's name"), {}, 0, {1, 1, 1, 1}, {}};
    extents.push_back(ReadTensorInfo(cursor, static_cast<uint64_t>(alignment), tensor));
    if (!tensor_index_.emplace(tensor.name, tensors_.size()).second) {
      Fail(ErrorKind::kInvalidArgument, "{}: tensor {} occurs twice", name(), Quoted(tensor.name));
    }
    tensors_.push_back(tensor);
  }
  PlaceTensors(cursor, static_cast<uint64_t>(alignment), extents);
}

std::pair<uint64_t, uint64_t> GgufFile::ReadTensorInfo(GgufCursor& cursor, uint64_t alignment,
                                                       GgufTensor& tensor) const {
  const auto fail = [&]<class... Args>(ErrorKind kind, fmt::format_string<Args...> format,
                                       Args&&... args) {
    Fail(kind, "{}: tensor {} {}", name(), Quoted(tensor.name),
         fmt::format(format, std::forward<Args>(args)...));
  };
  const uint32_t num_dims = cursor.Read<uint32_t>("a tensor's rank");
  if (num_dims < 1 || num_dims > tensor.shape.size()) {
    fail(ErrorKind::kInvalidArgument, "has {} dimensions, 1 to 4 are accepted", num_dims);
  }
  tensor.num_dims = static_cast<int32_t>(num_dims);
  int64_t num_elements = 1;
  for (uint32_t dim = 0; dim < num_dims; ++dim) {
    const int64_t size = static_cast<int64_t>(cursor.Read<uint64_t>("a tensor's dimension"));
    if (size < 1 || __builtin_mul_overflow(num_elements, size, &num_elements)) {
      fail(ErrorKind::kInvalidArgument,
           "has dimension {} of {}: each must be at least 1, and their product less than 2^63", dim,
           static_cast<uint64_t>(size));
    }
    tensor.shape[num_dims - 1 - dim] = size;  // the file lists the contiguous dimension first
  }
  tensor.type = GgmlType{cursor.Read<uint32_t>("a tensor's type")};
  const GgmlTypeRow* row = FindType(tensor.type);
  if (row == nullptr) {
    fail(ErrorKind::kUnsupported, "has type {}, which is not a known one",
         static_cast<uint32_t>(tensor.type));
  }
  if (static_cast<uint64_t>(tensor.cols()) % row->block_size != 0) {
    fail(ErrorKind::kInvalidArgument, "has rows of {} elements, {} comes in blocks of {}",
         tensor.cols(), row->name, row->block_size);
  }
  uint64_t size = 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(num_elements) / row->block_size,
                             row->block_bytes, &size)) {
    fail(ErrorKind::kInvalidArgument, "has {} elements, more than any file holds", num_elements);
  }
  const uint64_t offset = cursor.Read<uint64_t>("a tensor's offset");
  if (offset % alignment != 0) {
    fail(ErrorKind::kInvalidArgument, "is at offset {}, no multiple of the alignment {}", offset,
         alignment);
  }
  return {offset, size};
}

void GgufFile::PlaceTensors(const GgufCursor& cursor, uint64_t alignment,
                            std::span<const std::pair<uint64_t, uint64_t>> extents) {
  const uint64_t file_bytes = file_.bytes().size();
  const uint64_t data_start = (cursor.position() + alignment - 1) / alignment * alignment;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const auto [offset, size] = extents[i];
    const uint64_t data_bytes = file_bytes - std::min(file_bytes, data_start);
    if (offset > data_bytes || size > data_bytes - offset) {
      Fail(ErrorKind::kInvalidArgument,
           "{}: tensor {} needs {} bytes at offset {}, the file holds {} bytes of tensors: it is "
           "truncated or damaged",
           name(), Quoted(tensors_[i].name), size, offset, data_bytes);
    }
    tensors_[i].bytes = file_.bytes().subspan(data_start + offset, size);
  }
  std::vector<size_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return extents[i].first; });
  for (size_t i = 1; i < order.size(); ++i) {
    const auto [offset, size] = extents[order[i - 1]];
    if (offset + size > extents[order[i]].first) {
      Fail(ErrorKind::kInvalidArgument, "{}: tensors {} and {} overlap", name(),
           Quoted(tensors_[order[i - 1]].name), Quoted(tensors_[order[i]].name));
    }
  }
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace flashinfer::engine
