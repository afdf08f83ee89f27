// SPDX-License-Identifier: Apache-2.0
// What specs and kernels need of the standard library, for compilers with and without it.
#pragma once

#if defined(__CUDACC_RTC__)
using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
using uintptr_t = unsigned long long;
#else
#include <cstdint>
#endif

#include "core/field_list.h"
#include "flashinfer/dtype.h"
