// SPDX-License-Identifier: Apache-2.0
// Encodes tensor maps through the driver.
#include "cuda/tensor_map.h"

#include <array>

#include "core/check.h"
#include "cuda/device.h"
#include "cuda/driver.h"

namespace flashinfer::cuda {
namespace {

constexpr size_t kMaxRank = 5;

/// CUtensorMapDataType. Formats of 8 bits are bytes to the copy engine.
int DataType(DType dtype) {
  switch (dtype) {
    case DType::kU8:
    case DType::kI8:
    case DType::kE4M3:
    case DType::kE5M2:
    case DType::kBool:
      return 0;
    case DType::kI32:
      return 3;
    case DType::kI64:
      return 5;
    case DType::kF16:
      return 6;
    case DType::kF32:
      return 7;
    case DType::kBF16:
      return 9;
    default:
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("dtype: the copy engine does not know {}", Name(dtype)));
  }
}

int64_t SwizzleBytes(TensorMapSwizzle swizzle) {
  return swizzle == TensorMapSwizzle::kNone ? 256 * 8 : int64_t{16} << static_cast<int>(swizzle);
}

void CheckShape(const TensorMapShape& shape) {
  const size_t rank = shape.sizes.size();
  FLASHINFER_CHECK(
      rank >= 1 && rank <= kMaxRank && shape.box.size() == rank && shape.strides.size() + 1 == rank,
      "tensor map: {} sizes, {} strides and {} sides of a box, accepted: 1 to 5 sizes, "
      "as many sides and one stride less",
      rank, shape.strides.size(), shape.box.size());
  const int64_t element = SizeBytes(shape.dtype);
  FLASHINFER_CHECK(reinterpret_cast<uintptr_t>(shape.data) % 16 == 0,
                   "tensor map: data is at {}, aligned to 16 bytes is accepted", shape.data);
  for (size_t i = 0; i < rank; ++i) {
    FLASHINFER_CHECK(shape.sizes[i] >= 1 && shape.sizes[i] <= (int64_t{1} << 32),
                     "tensor map: size {} is {}, accepted: 1 to 2^32", i, shape.sizes[i]);
    FLASHINFER_CHECK(shape.box[i] >= 1 && shape.box[i] <= 256,
                     "tensor map: side {} of the box is {}, accepted: 1 to 256", i, shape.box[i]);
  }
  for (size_t i = 0; i + 1 < rank; ++i) {
    const int64_t bytes = shape.strides[i] * element;
    FLASHINFER_CHECK(bytes > 0 && bytes % 16 == 0 && bytes < (int64_t{1} << 40),
                     "tensor map: stride {} is {} bytes, accepted: multiples of 16 below 2^40",
                     i + 1, bytes);
  }
  const int64_t line = shape.box[0] * element;
  FLASHINFER_CHECK(line % 16 == 0 && line <= SwizzleBytes(shape.swizzle),
                   "tensor map: lines of the box are {} bytes, accepted: multiples of 16 up to {}",
                   line, SwizzleBytes(shape.swizzle));
}

}  // namespace

TensorMap EncodeTensorMap(const TensorMapShape& shape) {
  const int data_type = DataType(shape.dtype);
  CheckShape(shape);
  const size_t rank = shape.sizes.size();
  std::array<uint64_t, kMaxRank> sizes{};
  std::array<uint64_t, kMaxRank> strides{};
  std::array<uint32_t, kMaxRank> box{};
  std::array<uint32_t, kMaxRank> steps{};
  for (size_t i = 0; i < rank; ++i) {
    sizes[i] = static_cast<uint64_t>(shape.sizes[i]);
    box[i] = static_cast<uint32_t>(shape.box[i]);
    steps[i] = 1;
    if (i + 1 < rank) strides[i] = static_cast<uint64_t>(shape.strides[i] * SizeBytes(shape.dtype));
  }
  const CurrentDevice current(Properties(shape.device));  // the driver asks for a context
  TensorMap map{};
  constexpr int kNoInterleave = 0;
  constexpr int kPromoteTo128B = 2;
  constexpr int kFillZeros = 0;
  Check(GetDriver().cuTensorMapEncodeTiled(
            &map, data_type, static_cast<uint32_t>(rank), const_cast<void*>(shape.data),
            sizes.data(), strides.data(), box.data(), steps.data(), kNoInterleave,
            static_cast<int>(shape.swizzle), kPromoteTo128B, kFillZeros),
        "cuTensorMapEncodeTiled");
  return map;
}

}  // namespace flashinfer::cuda
