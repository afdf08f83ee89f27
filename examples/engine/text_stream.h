// SPDX-License-Identifier: Apache-2.0
// Turns token texts into output that ends at a stop string and never shows half of anything.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flashinfer::engine {

/// Text that arrives in pieces. What may be the beginning of a stop string, or of a UTF-8
/// character, is held back until it is known.
class TextStream {
 public:
  explicit TextStream(std::vector<std::string> stops = {});

  /// Takes a token's bytes; returns what may now be shown.
  std::string_view Push(std::string_view piece);
  /// The rest, when no more tokens come.
  std::string_view Finish();
  /// Whether a stop string has been met; it and what follows is not part of the text.
  bool stopped() const { return stopped_; }
  /// All text shown so far.
  const std::string& text() const { return shown_; }

 private:
  std::string_view Show(size_t num_bytes);

  std::vector<std::string> stops_;
  std::string shown_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace flashinfer::engine
