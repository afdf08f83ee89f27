// SPDX-License-Identifier: Apache-2.0
// Version of the headers, and of the library that was loaded.
#pragma once

#include "flashinfer/export.h"

// Until 1.0 a minor version may change the API and the ABI (the soname carries it); a patch may
// not.
#define FLASHINFER_VERSION_MAJOR 0
#define FLASHINFER_VERSION_MINOR 1
#define FLASHINFER_VERSION_PATCH 0

namespace flashinfer {

/// Version of the loaded library, `0.1.0`; compare it with the macros above.
FLASHINFER_API const char* Version();

}  // namespace flashinfer
