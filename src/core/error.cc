// SPDX-License-Identifier: Apache-2.0
// Names of error kinds.
#include "flashinfer/error.h"

namespace flashinfer {

std::string_view Name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return "invalid argument";
    case ErrorKind::kUnsupported:
      return "unsupported";
    case ErrorKind::kCompile:
      return "compile error";
    case ErrorKind::kDevice:
      return "device error";
    case ErrorKind::kIo:
      return "input/output error";
    case ErrorKind::kInternal:
      return "internal error";
  }
  return "unknown";
}

}  // namespace flashinfer
