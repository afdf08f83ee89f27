// SPDX-License-Identifier: Apache-2.0
// Rows of a top-k selection as keys, and where its results go.
#pragma once

#include "kernels/sampling/topk_spec.h"
#include "kernels/sampling/vocabulary_row.cuh"

namespace flashinfer::kernels::topk_simt {

using namespace sampling;

__device__ __forceinline__ int32_t KeyOfValue(float x) {
  return x != x ? KeyOrder::kNan : OrderedKey(x + 0.0f);  // no -0
}

/// Rows in memory as keys; what is past the end is below all of them.
template <class T>
struct KeysInMemory {
  const char* data;
  uint32_t size;

  __device__ __forceinline__ void operator()(uint32_t chunk, Lane& x) const {
    LoadLane<T>(data, size, chunk, 0.0f, x);
    Finish(chunk, x);
  }
  __device__ __forceinline__ void Copy(uint32_t chunk, char* to) const {
    CopyLane<T>(data, size, chunk, to);
  }
  __device__ __forceinline__ void FromShared(uint32_t chunk, const char* from, Lane& x) const {
    LoadSharedLane<T>(from, size, chunk, 0.0f, x);
    Finish(chunk, x);
  }
  __device__ __forceinline__ float ElementAt(uint32_t column) const {
    return ElementOf(data, column);
  }
  __device__ __forceinline__ float ElementOf(const char* from, uint32_t column) const {
    return KeyOrder::ElementOf(KeyOfValue(tile::LoadElement<T::kDType>(from, column)));
  }
  __device__ __forceinline__ void Finish(uint32_t chunk, Lane& x) const {
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) {
      const int32_t key = ColumnOf<T>(chunk, i) < size ? KeyOfValue(x[i]) : KeyOrder::kNothing;
      x[i] = KeyOrder::ElementOf(key);
    }
  }
};

/// Where a row's results go.
template <class T>
struct Output {
  const TopKParams& p;
  int64_t row;

  /// Place `at` without the index map, for a sort that follows.
  __device__ __forceinline__ void SetIndex(int32_t at, int64_t index) const {
    const int64_t to = row * p.indices_stride + at;
    if (p.indices_are_64_bit) {
      static_cast<int64_t*>(p.indices)[to] = index;
    } else {
      static_cast<int32_t*>(p.indices)[to] = static_cast<int32_t>(index);
    }
  }
  __device__ __forceinline__ int64_t Index(int32_t at) const {
    const int64_t from = row * p.indices_stride + at;
    return p.indices_are_64_bit ? static_cast<const int64_t*>(p.indices)[from]
                                : static_cast<const int32_t*>(p.indices)[from];
  }
  __device__ __forceinline__ void Write(int32_t at, int64_t index, int32_t key) const {
    SetIndex(at, Mapped(index));
    if (p.values == nullptr) return;
    const float value = key == KeyOrder::kNan ? __uint_as_float(0x7fffffffu) : FloatOfKey(key);
    tile::StoreElement<T::kDType>(p.values, row * p.values_stride + at, value);
  }
  /// Place `at` is past the last element.
  __device__ __forceinline__ void WriteNothing(int32_t at) const {
    SetIndex(at, -1);
    if (p.values == nullptr) return;
    tile::StoreElement<T::kDType>(p.values, row * p.values_stride + at, -kInfinity);
  }

 private:
  __device__ __forceinline__ int64_t Mapped(int64_t index) const {
    const TopKIndexMapParams& m = p.map;
    if (m.page_table == nullptr) return index + m.offset[row];
    int64_t request = row;
    if (m.row_to_request != nullptr) {
      const int64_t from = row * m.row_to_request_stride;
      request = m.requests_are_64_bit ? static_cast<const int64_t*>(m.row_to_request)[from]
                                      : static_cast<const int32_t*>(m.row_to_request)[from];
    }
    const int64_t page =
        m.page_table[request * m.page_table_row_stride + index / m.page_size * m.page_table_stride];
    return page * m.page_size + index % m.page_size;
  }
};

}  // namespace flashinfer::kernels::topk_simt
