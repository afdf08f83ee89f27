// SPDX-License-Identifier: Apache-2.0
// Integer types for headers that host and device share, as NVRTC has no <cstdint>; the
// architecture.
#pragma once

#if defined(__CUDACC_RTC__)
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long;
using uint64_t = unsigned long;
using uintptr_t = unsigned long;
#else
#include <cstdint>
#endif

// Which code a kernel has: that of the architecture it is compiled for, 900, or, where a unit says
// so, that of an older one.
#if defined(__CUDA_ARCH__) && !defined(FLASHINFER_ARCH)
#define FLASHINFER_ARCH __CUDA_ARCH__
#endif
