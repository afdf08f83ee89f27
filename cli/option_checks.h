// SPDX-License-Identifier: Apache-2.0
// Bounds of options, in words of our own: the parser's name the largest double.
#pragma once

#include <cmath>
#include <string>

#include <CLI/CLI.hpp>

namespace flashinfer::cli {

inline CLI::Validator NumberThat(bool (*is_accepted)(double), const char* accepted) {
  return {[=](const std::string& text) {
            double value = 0;
            const bool is_number = CLI::detail::lexical_cast(text, value);
            return is_number && std::isfinite(value) && is_accepted(value)
                       ? std::string()
                       : "is " + text + ", expected " + accepted;
          },
          ""};
}

inline CLI::Validator AtLeastOne() {
  return NumberThat([](double value) { return value >= 1; }, "1 or more");
}

inline CLI::Validator MoreThanZero() {
  return NumberThat([](double value) { return value > 0; }, "more than 0");
}

inline CLI::Validator AtLeastZero() {
  return NumberThat([](double value) { return value >= 0; }, "0 or more");
}

}  // namespace flashinfer::cli
