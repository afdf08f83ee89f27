// SPDX-License-Identifier: Apache-2.0
// The part of CUDA C++ that our kernels use, for a unit that runs on the software device. Stands
// before the unit; flashinfer_image, behind it, is what the driver loads.
#pragma once

#include <cmath>
#include <cstring>

#include "software_device/interface.h"

#define __device__
#define __host__
#define __global__
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

namespace flashinfer::software_device {

inline const Services* services = nullptr;

inline ThreadState& Self() { return **services->current; }
inline uint32_t Lane() { return Self().thread.x % 32; }

/// The variable of a fixed size with this number, in the shared memory of the running block.
template <class T, int kNumber>
T& FixedShared() {
  static_assert(sizeof(T) <= kFixedSharedBytes);
  static_assert((kNumber + 1) * kFixedSharedBytes <= kSharedStride - kFixedSharedOffset);
  return *reinterpret_cast<T*>(Self().shared + kFixedSharedOffset + kNumber * kFixedSharedBytes);
}

/// All lanes of `mask` give `mine`; `read(slots)` is what each makes of them.
template <class T, class Read>
auto Together(uint32_t mask, Operation operation, const T& mine, Read read) {
  static_assert(sizeof(T) <= sizeof(Slot));
  Slot slot{};
  std::memcpy(&slot, &mine, sizeof(T));
  const Slot* slots = services->Meet(mask, operation, slot);
  const auto part = [slots](uint32_t lane) {
    T value;
    std::memcpy(&value, &slots[lane], sizeof(T));
    return value;
  };
  const auto result = read(part);
  services->Leave(slots);
  return result;
}

template <class T>
T Shuffle(uint32_t mask, T value, uint32_t lane) {
  return Together(mask, Operation::kShuffle, value, [&](auto part) { return part(lane); });
}

template <class To, class From>
To BitsAs(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}

}  // namespace flashinfer::software_device

#define threadIdx (::flashinfer::software_device::Self().thread)
#define blockIdx (::flashinfer::software_device::Self().block)
#define blockDim (::flashinfer::software_device::Self().block_dim)
#define gridDim (::flashinfer::software_device::Self().grid_dim)

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

// --- Threads together ---

inline void __syncthreads() { ::flashinfer::software_device::services->SyncBlock(); }
inline void __syncwarp(unsigned mask = ~0u) {
  namespace sd = ::flashinfer::software_device;
  sd::Together(mask, sd::Operation::kSyncWarp, 0, [](auto) { return 0; });
}
inline void __threadfence() {}
template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  namespace sd = ::flashinfer::software_device;
  const unsigned first = sd::Lane() / static_cast<unsigned>(width) * static_cast<unsigned>(width);
  return sd::Shuffle(mask, value,
                     first + static_cast<unsigned>(lane) % static_cast<unsigned>(width));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  namespace sd = ::flashinfer::software_device;
  const unsigned first = sd::Lane() / static_cast<unsigned>(width) * static_cast<unsigned>(width);
  const unsigned other = sd::Lane() ^ static_cast<unsigned>(lanes);
  const bool is_there = other < first + static_cast<unsigned>(width);
  return sd::Shuffle(mask, value, is_there ? other : sd::Lane());
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  namespace sd = ::flashinfer::software_device;
  const unsigned first = sd::Lane() / static_cast<unsigned>(width) * static_cast<unsigned>(width);
  const bool is_there = sd::Lane() >= first + delta;
  return sd::Shuffle(mask, value, is_there ? sd::Lane() - delta : sd::Lane());
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  namespace sd = ::flashinfer::software_device;
  const unsigned first = sd::Lane() / static_cast<unsigned>(width) * static_cast<unsigned>(width);
  const bool is_there = sd::Lane() + delta < first + static_cast<unsigned>(width);
  return sd::Shuffle(mask, value, is_there ? sd::Lane() + delta : sd::Lane());
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  namespace sd = ::flashinfer::software_device;
  return sd::Together(mask, sd::Operation::kVote, predicate != 0, [&](auto part) {
    unsigned bits = 0;
    for (unsigned lane = 0; lane < 32; ++lane) {
      if ((mask >> lane & 1) != 0 && part(lane)) bits |= 1u << lane;
    }
    return bits;
  });
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) == mask;
}
inline unsigned __reduce_add_sync(unsigned mask, unsigned value) {
  namespace sd = ::flashinfer::software_device;
  return sd::Together(mask, sd::Operation::kReduce, value, [&](auto part) {
    unsigned sum = 0;
    for (unsigned lane = 0; lane < 32; ++lane) sum += (mask >> lane & 1) != 0 ? part(lane) : 0;
    return sum;
  });
}
inline int __reduce_add_sync(unsigned mask, int value) {
  return static_cast<int>(__reduce_add_sync(mask, static_cast<unsigned>(value)));
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
  namespace sd = ::flashinfer::software_device;
  return sd::Together(mask, sd::Operation::kReduce, value, [&](auto part) {
    unsigned max = 0;
    for (unsigned lane = 0; lane < 32; ++lane) {
      if ((mask >> lane & 1) != 0 && part(lane) > max) max = part(lane);
    }
    return max;
  });
}

// --- Memory ---

template <class T>
T __ldcg(const T* from) {
  return *from;
}
template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
T atomicAdd(T* at, T value) {
  const T before = *at;
  *at += value;
  return before;
}
template <class T>
T atomicMax(T* at, T value) {
  const T before = *at;
  if (value > before) *at = value;
  return before;
}
template <class T>
T atomicMin(T* at, T value) {
  const T before = *at;
  if (value < before) *at = value;
  return before;
}
template <class T>
T atomicOr(T* at, T value) {
  const T before = *at;
  *at |= value;
  return before;
}

// --- Numbers ---

inline float __uint_as_float(unsigned x) { return ::flashinfer::software_device::BitsAs<float>(x); }
inline float __int_as_float(int x) { return ::flashinfer::software_device::BitsAs<float>(x); }
inline unsigned __float_as_uint(float x) {
  return ::flashinfer::software_device::BitsAs<unsigned>(x);
}
inline int __float_as_int(float x) { return ::flashinfer::software_device::BitsAs<int>(x); }
inline double __longlong_as_double(long long x) {
  return ::flashinfer::software_device::BitsAs<double>(x);
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x));
}
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long>(a) * b >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  const unsigned long both = static_cast<unsigned long>(high) << 32 | low;
  return static_cast<unsigned>(both << (shift % 32) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  const unsigned long both = static_cast<unsigned long>(high) << 32 | low;
  return static_cast<unsigned>(both >> (shift % 32));
}
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const unsigned long both = static_cast<unsigned long>(high) << 32 | low;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned nibble = selector >> (4 * i) & 0xf;
    unsigned byte = static_cast<unsigned>(both >> (8 * (nibble & 7))) & 0xff;
    if ((nibble & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}
// Rounded up: the nearest, and one further where the error, which is exact, says that it is below.
inline float __fadd_ru(float a, float b) {
  const float sum = a + b;
  const float added = sum - a;
  const float error = (a - (sum - added)) + (b - added);
  return error > 0 ? std::nextafter(sum, INFINITY) : sum;
}
inline float __fmul_ru(float a, float b) {
  const double exact = static_cast<double>(a) * static_cast<double>(b);
  const auto product = static_cast<float>(exact);
  return static_cast<double>(product) < exact ? std::nextafter(product, INFINITY) : product;
}
inline float __fdiv_ru(float a, float b) {
  const float x = a / b;
  const double error = static_cast<double>(x) * static_cast<double>(b) - static_cast<double>(a);
  return (b > 0 ? error : -error) < 0 ? std::nextafter(x, INFINITY) : x;
}
inline float __fdividef(float a, float b) { return a / b; }
inline unsigned long long __float2ull_rn(float x) {
  return static_cast<unsigned long long>(std::nearbyint(x));
}
inline void __sincosf(float x, float* sin, float* cos) {
  *sin = std::sin(x);
  *cos = std::cos(x);
}
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline void sincospif(float x, float* sin, float* cos) {
  *sin = static_cast<float>(std::sin(static_cast<double>(x) * M_PI));
  *cos = static_cast<float>(std::cos(static_cast<double>(x) * M_PI));
}
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }
template <class T>
T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
T max(T a, T b) {
  return a < b ? b : a;
}
[[noreturn]] inline void __trap() {
  ::flashinfer::software_device::services->Trap("__trap()");
  __builtin_unreachable();
}
