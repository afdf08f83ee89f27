// SPDX-License-Identifier: Apache-2.0
// Elements of any floating-point dtype as f32: whole accesses widened and narrowed by a thread.
#pragma once

#include "flashinfer/dtype.h"
#include "kernels/ptx/convert.cuh"
#include "kernels/ptx/memory.cuh"

namespace flashinfer::kernels::tile {

constexpr int SizeBytes(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kI64:
      return 8;
    default:
      return 1;
  }
}

/// The values that share a 32-bit word, in order.
template <DType kDType>
__device__ __forceinline__ void WidenWord(uint32_t word, float* x) {
  const auto put = [&](int i, ptx::Float2 pair) { x[i] = pair.x, x[i + 1] = pair.y; };
  if constexpr (kDType == DType::kF32) {
    x[0] = __uint_as_float(word);
  } else if constexpr (kDType == DType::kF16) {
    put(0, ptx::cvt_f32_f16x2(word));
  } else if constexpr (kDType == DType::kBF16) {
    put(0, ptx::cvt_f32_bf16x2(word));
  } else if constexpr (kDType == DType::kE4M3) {
    put(0, ptx::cvt_f32_e4m3x2(word));
    put(2, ptx::cvt_f32_e4m3x2(word >> 16));
  } else if constexpr (kDType == DType::kE5M2) {
    put(0, ptx::cvt_f32_e5m2x2(word));
    put(2, ptx::cvt_f32_e5m2x2(word >> 16));
  } else {
    static_assert(kDType == DType::kI8, "elements are f32, f16, bf16, e4m3, e5m2 or i8");
    put(0, ptx::cvt_f32_s8x2(word));
    put(2, ptx::cvt_f32_s8x2(word >> 16));
  }
}

template <DType kDType>
__device__ __forceinline__ uint32_t NarrowWord(const float* x) {
  if constexpr (kDType == DType::kF32) {
    return __float_as_uint(x[0]);
  } else if constexpr (kDType == DType::kF16) {
    return ptx::cvt_rn_f16x2_f32(x[0], x[1]);
  } else if constexpr (kDType == DType::kBF16) {
    return ptx::cvt_rn_bf16x2_f32(x[0], x[1]);
  } else if constexpr (kDType == DType::kE4M3) {
    return ptx::cvt_rn_satfinite_e4m3x2_f32(x[0], x[1]) |
           (ptx::cvt_rn_satfinite_e4m3x2_f32(x[2], x[3]) << 16);
  } else if constexpr (kDType == DType::kE5M2) {
    return ptx::cvt_rn_satfinite_e5m2x2_f32(x[0], x[1]) |
           (ptx::cvt_rn_satfinite_e5m2x2_f32(x[2], x[3]) << 16);
  } else {
    static_assert(kDType == DType::kI8, "elements are f32, f16, bf16, e4m3, e5m2 or i8");
    return ptx::cvt_rni_sat_s8x2_f32(x[0], x[1]) | (ptx::cvt_rni_sat_s8x2_f32(x[2], x[3]) << 16);
  }
}

/// `kCount` adjacent elements as they lie in memory; up to 16 bytes go in one access.
template <DType kDType, int kCount>
struct Elements {
  static constexpr int kBytes = kCount * SizeBytes(kDType);
  static constexpr int kAccessBytes = kBytes < 16 ? kBytes : 16;
  static constexpr int kNumAccesses = kBytes / kAccessBytes;
  static constexpr int kPerWord = 4 / SizeBytes(kDType);
  static_assert(kNumAccesses * kAccessBytes == kBytes, "whole accesses of at most 16 bytes");

  ptx::Words<kAccessBytes> access[kNumAccesses];

  /// `from` is aligned to kAccessBytes.
  __device__ __forceinline__ void Load(const void* from) {
#pragma unroll
    for (int i = 0; i < kNumAccesses; ++i) {
      access[i] = ptx::ld<kAccessBytes>(static_cast<const char*>(from) + int64_t{i} * kAccessBytes);
    }
  }

  /// Load() of what nobody reads again soon.
  __device__ __forceinline__ void LoadOnce(const void* from) {
#pragma unroll
    for (int i = 0; i < kNumAccesses; ++i) {
      access[i] = ptx::ld_evict_first<kAccessBytes>(static_cast<const char*>(from) +
                                                    int64_t{i} * kAccessBytes);
    }
  }

  __device__ __forceinline__ void Store(void* to) const {
#pragma unroll
    for (int i = 0; i < kNumAccesses; ++i) {
      ptx::st<kAccessBytes>(static_cast<char*>(to) + int64_t{i} * kAccessBytes, access[i]);
    }
  }

  __device__ __forceinline__ void Widen(float (&x)[kCount]) const {
    constexpr int kWords = ptx::Words<kAccessBytes>::kCount;
#pragma unroll
    for (int i = 0; i < kNumAccesses * kWords; ++i) {
      float word[kPerWord];
      WidenWord<kDType>(access[i / kWords].w[i % kWords], word);
#pragma unroll
      for (int j = 0; j < kPerWord; ++j) {
        if (i * kPerWord + j < kCount) x[i * kPerWord + j] = word[j];
      }
    }
  }

  __device__ __forceinline__ void Narrow(const float (&x)[kCount]) {
    constexpr int kWords = ptx::Words<kAccessBytes>::kCount;
#pragma unroll
    for (int i = 0; i < kNumAccesses * kWords; ++i) {
      float word[kPerWord];
#pragma unroll
      for (int j = 0; j < kPerWord; ++j) {
        word[j] = i * kPerWord + j < kCount ? x[i * kPerWord + j] : 0.0f;
      }
      access[i / kWords].w[i % kWords] = NarrowWord<kDType>(word);
    }
  }
};

/// The address of an element, `offset` counted in elements.
template <DType kDType>
__device__ __forceinline__ const char* At(const void* base, int64_t offset) {
  return static_cast<const char*>(base) + offset * SizeBytes(kDType);
}
template <DType kDType>
__device__ __forceinline__ char* At(void* base, int64_t offset) {
  return static_cast<char*>(base) + offset * SizeBytes(kDType);
}

/// One element, `offset` counted in elements.
template <DType kDType>
__device__ __forceinline__ float LoadElement(const void* base, int64_t offset) {
  Elements<kDType, 1> element;
  float x[1];
  element.Load(At<kDType>(base, offset));
  element.Widen(x);
  return x[0];
}
template <DType kDType>
__device__ __forceinline__ void StoreElement(void* base, int64_t offset, float value) {
  Elements<kDType, 1> element;
  const float x[1] = {value};
  element.Narrow(x);
  element.Store(At<kDType>(base, offset));
}

}  // namespace flashinfer::kernels::tile
