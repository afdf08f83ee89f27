// SPDX-License-Identifier: Apache-2.0
// Eight floats in plain C++, for every other machine and as the path that tests force; included by
// simd.h. The compiler turns the loops into whatever the baseline has.
#pragma once

namespace flashinfer::cpu::FLASHINFER_ISA {

struct F32 {
  static constexpr int kWidth = 8;
  float v[kWidth];
  static F32 Set(float x) { return {{x, x, x, x, x, x, x, x}}; }
};

template <class Function>
inline F32 Map(Function function) {
  F32 r;
  for (int i = 0; i < F32::kWidth; ++i) r.v[i] = function(i);
  return r;
}

inline F32 operator+(F32 a, F32 b) {
  return Map([&](int i) { return a.v[i] + b.v[i]; });
}
inline F32 operator-(F32 a, F32 b) {
  return Map([&](int i) { return a.v[i] - b.v[i]; });
}
inline F32 operator*(F32 a, F32 b) {
  return Map([&](int i) { return a.v[i] * b.v[i]; });
}
inline F32 operator/(F32 a, F32 b) {
  return Map([&](int i) { return a.v[i] / b.v[i]; });
}
/// a * b + c, rounded twice.
inline F32 Fma(F32 a, F32 b, F32 c) {
  return Map([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
}
// As the instructions do, Max and Min return b where a lane is NaN.
inline F32 Max(F32 a, F32 b) {
  return Map([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline F32 Min(F32 a, F32 b) {
  return Map([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline F32 Abs(F32 a) {
  return Map([&](int i) { return __builtin_fabsf(a.v[i]); });
}
inline F32 Sqrt(F32 a) {
  return Map([&](int i) { return __builtin_sqrtf(a.v[i]); });
}
/// Right for |a| below 2^22, which is all that the functions of simd.h need.
inline F32 Round(F32 a) {
  constexpr float kMagic = 12582912.0f;  // 1.5 · 2^23
  return Map([&](int i) { return (a.v[i] + kMagic) - kMagic; });
}
/// a < b ? x : y, lane by lane.
inline F32 SelectLess(F32 a, F32 b, F32 x, F32 y) {
  return Map([&](int i) { return a.v[i] < b.v[i] ? x.v[i] : y.v[i]; });
}
/// `a` where it is NaN, else `y`.
inline F32 SelectNan(F32 a, F32 y) {
  return Map([&](int i) { return a.v[i] != a.v[i] ? a.v[i] : y.v[i]; });
}
/// The first `n` lanes of `x`, `y` in the others.
inline F32 SelectFirst(int n, F32 x, F32 y) {
  return Map([&](int i) { return i < n ? x.v[i] : y.v[i]; });
}
/// Lane i of `x` where bit i is set, of `y` in the others.
inline F32 SelectBits(uint32_t bits, F32 x, F32 y) {
  return Map([&](int i) { return (bits >> i & 1u) != 0 ? x.v[i] : y.v[i]; });
}
/// Bit i is set where lane i of `a` is not below that of `b`; clear for NaN.
inline uint32_t NotBelowBits(F32 a, F32 b) {
  uint32_t bits = 0;
  for (int i = 0; i < F32::kWidth; ++i) bits |= (a.v[i] >= b.v[i] ? 1u : 0u) << i;
  return bits;
}
/// Lanes 2i and 2i + 1 swapped.
inline F32 SwapPairs(F32 a) {
  return Map([&](int i) { return a.v[i ^ 1]; });
}
/// a * 2^n for whole n in -127 … 128.
inline F32 ScaleByPowerOfTwo(F32 a, F32 n) {
  return Map([&](int i) {
    const int whole = static_cast<int>(n.v[i]);
    const int half = whole >> 1;
    const float first = std::bit_cast<float>(static_cast<uint32_t>(half + 127) << 23);
    const float second = std::bit_cast<float>(static_cast<uint32_t>(whole - half + 127) << 23);
    return a.v[i] * first * second;
  });
}
inline float Sum(F32 a) {
  return ((a.v[0] + a.v[4]) + (a.v[2] + a.v[6])) + ((a.v[1] + a.v[5]) + (a.v[3] + a.v[7]));
}
inline float MaxLane(F32 a) {
  float m = a.v[0];
  for (int i = 1; i < F32::kWidth; ++i) m = a.v[i] > m ? a.v[i] : m;
  return m;
}

/// As many whole numbers of 32 bits.
struct I32 {
  int32_t v[F32::kWidth];
  static I32 Set(int32_t x) { return {{x, x, x, x, x, x, x, x}}; }
};
inline I32 LoadI32(const void* p) {
  I32 x;
  __builtin_memcpy(x.v, p, sizeof x.v);
  return x;
}
inline I32 operator&(I32 a, I32 b) {
  for (int i = 0; i < F32::kWidth; ++i) a.v[i] &= b.v[i];
  return a;
}
inline I32 operator|(I32 a, I32 b) {
  for (int i = 0; i < F32::kWidth; ++i) a.v[i] |= b.v[i];
  return a;
}
/// Zeros come in from the left.
inline I32 ShiftRight(I32 x, int n) {
  for (int32_t& lane : x.v) lane = static_cast<int32_t>(static_cast<uint32_t>(lane) >> n);
  return x;
}
inline I32 ShiftLeft(I32 x, int n) {
  for (int32_t& lane : x.v) lane *= 1 << n;
  return x;
}
inline F32 ToF32(I32 x) {
  return Map([&](int i) { return static_cast<float>(x.v[i]); });
}

template <class T>
inline F32 LoadAs(const T* p) {
  return Map([&](int i) { return ToFloat(p[i]); });
}
template <class T>
inline F32 LoadPartial(const T* p, int n) {
  F32 r = F32::Set(0.0f);
  for (int i = 0; i < n; ++i) r.v[i] = ToFloat(p[i]);
  return r;
}
template <class T>
inline void StorePartial(T* p, F32 v, int n) {
  for (int i = 0; i < n; ++i) p[i] = FromFloat<T>(v.v[i]);
}
template <class T>
inline void StoreAs(T* p, F32 v) {
  StorePartial(p, v, F32::kWidth);
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
