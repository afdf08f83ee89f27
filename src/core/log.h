// SPDX-License-Identifier: Apache-2.0
// Library log lines and the API log (FLASHINFER_LOGLEVEL, FLASHINFER_LOGDEST).
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "flashinfer/tensor.h"

namespace flashinfer {

namespace log_detail {
extern int level;  // constant after start-up but for tests
}

/// 0 off, 1 names, 3 arguments, 5 statistics of tensors, 10 dumps of calls (core/dump.h). Public
/// operators begin with
/// `if (LogLevel() > 0) [[unlikely]] LogCall("norm", {{"x", x}, {"out", out}});`, one
/// predictable branch when logging is off, and end with LogReturn() from level 5 on.
inline int LogLevel() { return log_detail::level; }

/// Writes one line, whatever the level; for warnings that a user must see once.
void LogLine(std::string_view line);

/// A named argument of an API call: a tensor (which outlives the LogArgument), or a value already
/// in text form.
struct LogArgument {
  std::string_view name;
  const TensorView* tensor = nullptr;
  std::string text;
  LogArgument(std::string_view n, const TensorView& t) : name(n), tensor(&t) {}
  LogArgument(std::string_view n, std::string t) : name(n), text(std::move(t)) {}
};

/// `arguments`: everything that decides the call's result, outputs too (they may be inputs), so
/// that `flashinfer replay` can make the call again. Its reader of `op` is a row in a
/// cli/replay_<family>.cc.
void LogCall(std::string_view op, std::span<const LogArgument> arguments);
inline void LogCall(std::string_view op, std::initializer_list<LogArgument> arguments) {
  LogCall(op, std::span(arguments.begin(), arguments.size()));
}
/// What the call wrote, under the names that LogCall() gave.
void LogReturn(std::string_view op, std::span<const LogArgument> outputs);
inline void LogReturn(std::string_view op, std::initializer_list<LogArgument> outputs) {
  LogReturn(op, std::span(outputs.begin(), outputs.size()));
}

/// The name under which calls refer to an object that a call made: its address.
std::string ObjectText(const void* object);

/// Test hook: sets level and destination as the environment would.
void SetLogging(int level, std::string_view destination);

}  // namespace flashinfer
