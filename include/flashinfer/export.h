// SPDX-License-Identifier: Apache-2.0
// Symbol visibility of the shared library.
#pragma once

/// Marks what the shared library exports; everything else is hidden.
#if defined(__GNUC__)
#define FLASHINFER_API __attribute__((visibility("default")))
#else
#define FLASHINFER_API
#endif
