// SPDX-License-Identifier: Apache-2.0
// Finding the names of tokens in text.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace flashinfer::engine {

/// A set of names, each with its token's id; borrows the names.
class TokenNames {
 public:
  /// An empty name is left out; of equal names the first added counts.
  void Add(std::string_view name, int32_t id);
  /// To be called once, after the last Add.
  void Finish();

  struct Match {
    int32_t id = -1;  ///< -1 when there is none
    size_t num_bytes = 0;
  };
  /// The longest name that `text` begins with.
  Match LongestAtFrontOf(std::string_view text) const;

 private:
  struct Name {
    std::string_view text;
    int32_t id;
  };
  std::vector<Name> names_;  // sorted by text
  std::array<bool, 256> begins_name_{};
};

}  // namespace flashinfer::engine
