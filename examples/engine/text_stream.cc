// SPDX-License-Identifier: Apache-2.0
// Stop strings and UTF-8 boundaries in streamed text.
#include "text_stream.h"

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

/// Bytes at the end of `text` that begin a UTF-8 character and do not end it.
size_t UnfinishedBytes(std::string_view text) {
  for (size_t n = 1; n <= std::min<size_t>(3, text.size()); ++n) {
    const auto byte = static_cast<unsigned char>(text[text.size() - n]);
    if ((byte & 0xc0) == 0x80) continue;
    const size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return byte < 0xf8 && length > n ? n : 0;
  }
  return 0;
}

}  // namespace

TextStream::TextStream(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase(stops_, "");
}

std::string_view TextStream::Push(std::string_view piece) {
  if (stopped_) return {};
  held_ += piece;
  size_t end = std::string::npos;
  for (const std::string& stop : stops_) end = std::min(end, held_.find(stop));
  if (end != std::string::npos) {
    stopped_ = true;
    held_.resize(end);
    return Show(end);
  }
  size_t num_held = UnfinishedBytes(held_);
  for (const std::string& stop : stops_) num_held = std::max(num_held, OverlapBytes(held_, stop));
  return Show(held_.size() - num_held);
}

std::string_view TextStream::Finish() { return Show(held_.size()); }

std::string_view TextStream::Show(size_t num_bytes) {
  shown_.append(held_, 0, num_bytes);
  held_.erase(0, num_bytes);
  return std::string_view(shown_).substr(shown_.size() - num_bytes);
}

}  // namespace flashinfer::engine
