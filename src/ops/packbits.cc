// SPDX-License-Identifier: Apache-2.0
// Packing of bits: check, choose, run.
#include "ops/packbits.h"

#include <limits>

#include "core/check.h"
#include "core/log.h"
#include "cuda/device.h"
#include "dispatch/choose.h"

namespace flashinfer {
namespace {

int64_t BytesOf(int64_t num_bits) { return (num_bits + 7) / 8; }

void CheckX(const TensorView& x) {
  CheckTensor("x", x).IsOneOf({DType::kBool, DType::kU8}).Rank(1).LastDimDense();
}

void CheckHostIndptr(const TensorView& indptr) {
  CheckTensor("indptr", indptr).On(Device()).Is(DType::kI32).Rank(1).LastDimDense();
  FLASHINFER_CHECK(indptr.shape(0) > 0, "indptr: is empty, expected num_segments + 1 elements");
  CheckIndptr("indptr", indptr);
}

void CheckSegments(const TensorView& x, const BitSegments& segments, const TensorView& packed) {
  CheckX(x);
  CheckHostIndptr(segments.indptr);
  const int64_t last_index = segments.indptr.shape(0) - 1;
  const int64_t last = segments.indptr.data_as<const int32_t>()[last_index];
  FLASHINFER_CHECK(last == x.shape(0), "indptr: ends at {}, x has {} elements", last, x.shape(0));
  CheckTensor("packed_indptr", segments.packed_indptr)
      .On(Device())
      .Is(DType::kI32)
      .Shape(segments.indptr.shape())
      .LastDimDense();
  CheckTensor("packed", packed).On(x.device()).Is(DType::kU8).Rank(1).LastDimDense();
  CheckTensor("packed", packed).Apart("x", x).Apart("indptr", segments.indptr);
  const int64_t num_bytes = SegmentPackBitsBytes(segments.indptr);
  FLASHINFER_CHECK(packed.shape(0) >= num_bytes, "packed: has {} bytes, expected {} or more",
                   packed.shape(0), num_bytes);
  FLASHINFER_CHECK(num_bytes <= std::numeric_limits<int32_t>::max(),
                   "indptr: asks for {} bytes, accepted: up to 2^31 - 1", num_bytes);
}

}  // namespace

int64_t SegmentPackBitsBytes(const TensorView& indptr) {
  CheckHostIndptr(indptr);
  const int32_t* begins = indptr.data_as<const int32_t>();
  int64_t num_bytes = 0;
  for (int64_t i = 0; i + 1 < indptr.shape(0); ++i) num_bytes += BytesOf(begins[i + 1] - begins[i]);
  return num_bytes;
}

void PackBits(const TensorView& x, const TensorView& packed, BitOrder order, Backend backend,
              Stream stream) {
  const bool little = order == BitOrder::kLittle;
  if (LogLevel() > 0) [[unlikely]]
    LogCall("packbits", {{"x", x}, {"packed", packed}, {"little", ValueText(little)}});
  CheckX(x);
  CheckTensor("packed", packed)
      .On(x.device())
      .Is(DType::kU8)
      .Shape({BytesOf(x.shape(0))})
      .LastDimDense()
      .Apart("x", x);
  const auto& run =
      Choose<PackBitsOp>({.little = little, .arch = cuda::ArchOf(x.device())}, backend);
  run({.x = x.data_as<const uint8_t>(),
       .packed = packed.data_as<uint8_t>(),
       .num_elements = x.shape(0),
       .indptr = nullptr,
       .packed_indptr = nullptr,
       .num_segments = 1,
       .little = little,
       .stream = cuda::StreamOn(x.device(), stream)});
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("packbits", {{"packed", packed}});
}

void SegmentPackBits(const TensorView& x, const BitSegments& segments, const TensorView& packed,
                     BitOrder order, Backend backend, Stream stream) {
  const bool little = order == BitOrder::kLittle;
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("segment_packbits", {{"x", x},
                                 {"indptr", segments.indptr},
                                 {"packed_indptr", segments.packed_indptr},
                                 {"packed", packed},
                                 {"little", ValueText(little)}});
  }
  CheckSegments(x, segments, packed);
  const auto& run = Choose<PackBitsOp>(
      {.little = little, .has_segments = true, .arch = cuda::ArchOf(x.device())}, backend);
  const int32_t* indptr = segments.indptr.data_as<const int32_t>();
  int32_t* packed_indptr = segments.packed_indptr.data_as<int32_t>();
  const int64_t num_segments = segments.indptr.shape(0) - 1;
  packed_indptr[0] = 0;
  for (int64_t i = 0; i < num_segments; ++i) {
    const int64_t num_bytes = BytesOf(indptr[i + 1] - indptr[i]);
    packed_indptr[i + 1] = static_cast<int32_t>(packed_indptr[i] + num_bytes);
  }
  run({.x = x.data_as<const uint8_t>(),
       .packed = packed.data_as<uint8_t>(),
       .num_elements = x.shape(0),
       .indptr = indptr,
       .packed_indptr = packed_indptr,
       .num_segments = num_segments,
       .little = little,
       .stream = cuda::StreamOn(x.device(), stream)});
  if (LogLevel() >= 5) [[unlikely]] {
    LogReturn("segment_packbits", {{"packed", packed}, {"packed_indptr", segments.packed_indptr}});
  }
}

}  // namespace flashinfer
