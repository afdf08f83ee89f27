// SPDX-License-Identifier: Apache-2.0
// Log destinations, and the lines of the API log.
#include "core/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <mutex>

#include "core/convert.h"
#include "core/dump.h"
#include "core/element.h"
#include "core/env.h"
#include "core/text.h"

namespace flashinfer {
namespace {

struct Sink {
  std::mutex mutex;
  std::FILE* file = stderr;
};

Sink& GetSink() {
  static Sink& sink = *new Sink;  // never destroyed: calls may come during exit
  return sink;
}

std::FILE* Open(std::string_view destination) {
  if (destination.empty() || destination == "stderr") return stderr;
  if (destination == "stdout") return stdout;
  std::string path(destination);
  for (size_t at = path.find("%i"); at != std::string::npos; at = path.find("%i", at)) {
    path.replace(at, 2, std::to_string(getpid()));
  }
  std::FILE* file = std::fopen(path.c_str(), "ae");
  if (file == nullptr) {
    fmt::print(stderr, "flashinfer: FLASHINFER_LOGDEST: cannot open '{}', using stderr\n", path);
    return stderr;
  }
  return file;
}

void Write(std::string_view text) {
  Sink& sink = GetSink();
  const std::lock_guard lock(sink.mutex);
  std::fwrite(text.data(), 1, text.size(), sink.file);
  std::fflush(sink.file);
}

/// ` min=-1 max=2 mean=0.5 nan=0 inf=0`, over finite elements.
std::string Statistics(const TensorView& tensor) {
  double min = std::numeric_limits<double>::infinity();
  double max = -min;
  double sum = 0;
  int64_t num_nan = 0;
  int64_t num_inf = 0;
  int64_t num_finite = 0;
  ForEachElement(tensor, [&](double value) {
    if (std::isnan(value)) {
      ++num_nan;
    } else if (std::isinf(value)) {
      ++num_inf;
    } else {
      ++num_finite;
      sum += value;
      min = std::min(min, value);
      max = std::max(max, value);
    }
  });
  if (num_finite == 0) return fmt::format(" nan={} inf={}", num_nan, num_inf);
  return fmt::format(" min={:.6g} max={:.6g} mean={:.6g} nan={} inf={}", min, max,
                     sum / static_cast<double>(num_finite), num_nan, num_inf);
}

void Append(std::string& text, std::span<const LogArgument> arguments) {
  for (const LogArgument& argument : arguments) {
    text += fmt::format("\n  {} = ", argument.name);
    if (argument.tensor == nullptr) {
      text += argument.text;
      continue;
    }
    text += Text(*argument.tensor);
    const bool readable = argument.tensor->defined() && argument.tensor->device() == Device{};
    if (LogLevel() >= 5 && readable) text += Statistics(*argument.tensor);
  }
}

}  // namespace

namespace log_detail {

int level = [] {
  const Env& env = GetEnv();
  if (env.log_level > 0) SetLogging(env.log_level, env.log_destination);
  return env.log_level;
}();

}  // namespace log_detail

void SetLogging(int level, std::string_view destination) {
  Sink& sink = GetSink();
  const std::lock_guard lock(sink.mutex);
  if (sink.file != stderr && sink.file != stdout) std::fclose(sink.file);
  sink.file = Open(destination);
  log_detail::level = level;
}

void LogLine(std::string_view line) { Write(fmt::format("flashinfer: {}\n", line)); }

void LogCall(std::string_view op, std::span<const LogArgument> arguments) {
  std::string text = fmt::format("flashinfer: {}", op);
  if (LogLevel() >= 3) Append(text, arguments);
  Write(text + "\n");
  if (LogLevel() >= 10) DumpCall(op, arguments);
}

void LogReturn(std::string_view op, std::span<const LogArgument> outputs) {
  std::string text = fmt::format("flashinfer: {} wrote", op);
  Append(text, outputs);
  Write(text + "\n");
  if (LogLevel() >= 10) DumpReturn(op, outputs);
}

std::string ObjectText(const void* object) { return fmt::format("{}", object); }

}  // namespace flashinfer
