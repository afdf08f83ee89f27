// SPDX-License-Identifier: Apache-2.0
// Library log lines and the API log (FLASHINFER_LOGLEVEL, FLASHINFER_LOGDEST).
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "flashinfer/tensor.h"

namespace flashinfer {

namespace log_detail {
extern int level;  // constant after start-up but for tests
}

/// 0 off, 1 names, 3 arguments, 5 statistics of tensors. Public operators begin with
/// `if (LogLevel() > 0) [[unlikely]] LogCall("norm", {{"x", x}, {"out", out}});`, one
/// predictable branch when logging is off.
inline int LogLevel() { return log_detail::level; }

/// Writes one line, whatever the level; for warnings that a user must see once.
void LogLine(std::string_view line);

/// A named argument of an API call: a tensor, or a value already in text form.
struct LogArgument {
  std::string_view name;
  const TensorView* tensor = nullptr;
  std::string text;
  LogArgument(std::string_view n, const TensorView& t) : name(n), tensor(&t) {}
  LogArgument(std::string_view n, std::string t) : name(n), text(std::move(t)) {}
};

void LogCall(std::string_view op, std::initializer_list<LogArgument> inputs);
void LogReturn(std::string_view op, std::initializer_list<LogArgument> outputs);

/// Test hook: sets level and destination as the environment would.
void SetLogging(int level, std::string_view destination);

}  // namespace flashinfer
