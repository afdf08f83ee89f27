// SPDX-License-Identifier: Apache-2.0
// Bounds of options: a finite number, then its lower bound.
#include "option_checks.h"

#include <charconv>
#include <cmath>
#include <functional>
#include <system_error>

#include <fmt/format.h>

namespace flashinfer::cli {
namespace {

template <typename Compare>
std::string Check(const std::string& text, Compare compare, double bound, const char* accepted) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (is_number && std::isfinite(value) && compare(value, bound)) {
    return {};
  }
  return fmt::format("is {}, expected {}", text, accepted);
}

}  // namespace

std::string CheckAtLeastOne(const std::string& text) {
  return Check(text, std::greater_equal<>(), 1, "1 or more");
}

std::string CheckMoreThanZero(const std::string& text) {
  return Check(text, std::greater<>(), 0, "more than 0");
}

std::string CheckAtLeastZero(const std::string& text) {
  return Check(text, std::greater_equal<>(), 0, "0 or more");
}

}  // namespace flashinfer::cli
