// SPDX-License-Identifier: Apache-2.0
// The longest name at a place, by narrowing a sorted list one byte at a time.
#include "engine/token_names.h"

#include <algorithm>

namespace flashinfer::engine {
namespace {

unsigned char ByteAt(std::string_view text, size_t i) {
  return static_cast<unsigned char>(text[i]);
}

}  // namespace

void TokenNames::Add(std::string_view name, int32_t id) {
  if (name.empty()) return;
  names_.push_back({name, id});
  begins_name_[ByteAt(name, 0)] = true;
}

void TokenNames::Finish() {
  std::stable_sort(names_.begin(), names_.end(),
                   [](const Name& a, const Name& b) { return a.text < b.text; });
}

TokenNames::Match TokenNames::LongestAtFrontOf(std::string_view text) const {
  Match longest;
  if (text.empty() || !begins_name_[ByteAt(text, 0)]) return longest;
  auto first = names_.begin();
  auto last = names_.end();
  // Invariant: [first, last) are the names that begin with the first `length` bytes of the text.
  for (size_t length = 0; length < text.size(); ++length) {
    const auto past_end = [&](const Name& name) { return name.text.size() <= length; };
    first = std::partition_point(first, last, past_end);
    const unsigned char byte = ByteAt(text, length);
    first = std::partition_point(
        first, last, [&](const Name& name) { return ByteAt(name.text, length) < byte; });
    last = std::partition_point(
        first, last, [&](const Name& name) { return ByteAt(name.text, length) == byte; });
    if (first == last) break;
    if (first->text.size() == length + 1) longest = {first->id, length + 1};
  }
  return longest;
}

}  // namespace flashinfer::engine
