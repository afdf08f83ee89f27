// SPDX-License-Identifier: Apache-2.0
// The version that the library was built as.
#include "flashinfer/version.h"

#include <fmt/format.h>

#include <string>

namespace flashinfer {

const char* Version() {
  static const std::string version = fmt::format(
      "{}.{}.{}", FLASHINFER_VERSION_MAJOR, FLASHINFER_VERSION_MINOR, FLASHINFER_VERSION_PATCH);
  return version.c_str();
}

}  // namespace flashinfer
