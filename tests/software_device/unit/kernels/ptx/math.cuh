// SPDX-License-Identifier: Apache-2.0
// Functions of the special function unit: exact ones, rounded; subnormals flushed as it does.
#pragma once

#include "kernels/portable.h"

namespace flashinfer::kernels::ptx {

inline float Flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

inline float ex2_approx(float x) { return Flushed(std::exp2(Flushed(x))); }
inline float lg2_approx(float x) { return std::log2(x); }
inline float rcp_approx(float x) { return Flushed(1.0f / Flushed(x)); }
inline float tanh_approx(float x) { return std::tanh(x); }
inline float RsqrtApprox(float x) { return 1.0f / std::sqrt(x); }

inline void Opaque(float&) {}

}  // namespace flashinfer::kernels::ptx
