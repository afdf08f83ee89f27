// SPDX-License-Identifier: Apache-2.0
// Finds stop strings, whole and begun, in streamed text.
#include "engine/stop_strings.h"

#include <algorithm>
#include <utility>

namespace flashinfer::engine {
namespace {

/// Bytes at the end of `text` that are the beginning of `stop`.
size_t OverlapBytes(std::string_view text, std::string_view stop) {
  for (size_t n = std::min(text.size(), stop.size() - 1); n > 0; --n) {
    if (text.ends_with(stop.substr(0, n))) return n;
  }
  return 0;
}

}  // namespace

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase(stops_, "");
}

std::string StopStrings::Push(std::string_view piece) {
  if (stopped_) return {};
  held_ += piece;
  size_t end = std::string::npos;
  for (const std::string& stop : stops_) end = std::min(end, held_.find(stop));
  if (end != std::string::npos) {
    stopped_ = true;
    held_.resize(end);
    return Show(end);
  }
  size_t num_held = 0;
  for (const std::string& stop : stops_) num_held = std::max(num_held, OverlapBytes(held_, stop));
  return Show(held_.size() - num_held);
}

std::string StopStrings::Finish() { return Show(held_.size()); }

std::string StopStrings::Show(size_t num_bytes) {
  std::string shown = held_.substr(0, num_bytes);
  held_.erase(0, num_bytes);
  return shown;
}

}  // namespace flashinfer::engine
