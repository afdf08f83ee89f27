// SPDX-License-Identifier: Apache-2.0
// Packing of truth values into bits on CUDA cores: what changes its code, and what changes per
// call.
#pragma once

#include "core/field_list.h"
#include "kernels/portable.h"

namespace flashinfer::kernels {

/// Values of a segment, and where its bytes go.
struct PackBitsSegment {
  int64_t begin;         ///< in x
  int64_t num_elements;  ///< the last byte is filled with zeros
  int64_t packed_begin;
};

/// Segments of a launch: they come with its parameters, as their lengths are in host memory.
inline constexpr int32_t kPackBitsSegments = 128;

/// Block (c, s) makes bytes of segment s from c · 256 on.
struct PackBitsKernelParams {
  const uint8_t* x;
  uint8_t* packed;
  PackBitsSegment segments[kPackBitsSegments];
};

/// Every field changes the machine code.
struct PackBitsSpec {
  using Params = PackBitsKernelParams;
  static constexpr const char* kName = "packbits.simt";
  static constexpr const char* kType = "PackBitsSpec";
  static constexpr const char* kHeader = "kernels/quantize/packbits_simt_sm75.cuh";
  static constexpr const char* kNamespace = "packbits_simt";
  static constexpr int kMinArch = 75;

  bool little = true;     ///< the first value is the lowest bit
  bool is_packed = true;  ///< segments begin at multiples of 8 bytes of memory

  friend constexpr bool operator==(const PackBitsSpec&, const PackBitsSpec&) = default;
};

template <FieldsOf<PackBitsSpec> Self, class Visit>
constexpr void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(little)
  FLASHINFER_NAMED(is_packed)
}

/// Each makes a byte.
constexpr int32_t NumThreads(const PackBitsSpec&) { return 256; }
constexpr int32_t SmemBytes(const PackBitsSpec&) { return 0; }

}  // namespace flashinfer::kernels
