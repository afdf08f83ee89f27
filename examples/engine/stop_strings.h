// SPDX-License-Identifier: Apache-2.0
// Ends streamed text at a stop string without ever showing the beginning of one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flashinfer::engine {

/// Text that arrives in pieces. What may be the beginning of a stop string is held back until it is
/// known not to be.
class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> stops = {});

  /// Takes more text; returns what may now be shown.
  std::string Push(std::string_view piece);
  /// The rest, when no more text comes.
  std::string Finish();
  /// Whether a stop string has been met; it and what follows is not shown.
  bool stopped() const { return stopped_; }

 private:
  std::string Show(size_t num_bytes);

  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace flashinfer::engine
