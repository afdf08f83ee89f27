// SPDX-License-Identifier: Apache-2.0
// Bounds of options, in words of our own: the parser's name the largest double. Each returns what
// is wrong with the text, or nothing.
#pragma once

#include <string>

namespace flashinfer::cli {

std::string CheckAtLeastOne(const std::string& text);
std::string CheckMoreThanZero(const std::string& text);
std::string CheckAtLeastZero(const std::string& text);

}  // namespace flashinfer::cli
