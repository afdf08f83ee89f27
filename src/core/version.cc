// SPDX-License-Identifier: Apache-2.0
// The version that the library was built as.
#include "flashinfer/version.h"

#define FLASHINFER_STRING_OF(x) #x
#define FLASHINFER_STRING(x) FLASHINFER_STRING_OF(x)

namespace flashinfer {

const char* Version() {
  return FLASHINFER_STRING(FLASHINFER_VERSION_MAJOR) "." FLASHINFER_STRING(
      FLASHINFER_VERSION_MINOR) "." FLASHINFER_STRING(FLASHINFER_VERSION_PATCH);
}

}  // namespace flashinfer
