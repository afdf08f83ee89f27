// SPDX-License-Identifier: Apache-2.0
// The one exception that the library throws.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "flashinfer/export.h"

namespace flashinfer {

/// What kind of thing went wrong; bindings and the CLI map it to classes and exit codes.
enum class ErrorKind {
  kInvalidArgument,  ///< the caller passed something that is never right
  kUnsupported,      ///< right in itself, but no backend here takes it
  kCompile,          ///< a kernel did not compile
  kDevice,           ///< a device or driver call failed
  kIo,               ///< a file or the network failed
  kInternal,         ///< a bug of this library
};

/// `invalid argument`, `unsupported`, ….
FLASHINFER_API std::string_view Name(ErrorKind kind);

/// Every failure of the library. The message names the argument, its value and what is accepted;
/// nothing was launched and no output was touched, so the caller may go on.
class FLASHINFER_API Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace flashinfer
