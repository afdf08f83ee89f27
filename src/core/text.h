// SPDX-License-Identifier: Apache-2.0
// Formatting and parsing of small values, for messages and for the text forms of problems.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "flashinfer/tensor.h"

namespace flashinfer {

/// Splits at runs of spaces and tabs.
std::vector<std::string_view> SplitWords(std::string_view text);

/// `[4, 576]`.
std::string Text(const Dims& dims);

/// `a, b, c`.
std::string Join(const std::vector<std::string>& items, std::string_view separator = ", ");

// One value of a text form. Parse* throw kInvalidArgument naming `field`.
std::string ValueText(bool value);
std::string ValueText(int32_t value);
std::string ValueText(int64_t value);
std::string ValueText(float value);
std::string ValueText(DType value);
void ParseValue(std::string_view field, std::string_view text, bool& value);
void ParseValue(std::string_view field, std::string_view text, int32_t& value);
void ParseValue(std::string_view field, std::string_view text, int64_t& value);
void ParseValue(std::string_view field, std::string_view text, float& value);
void ParseValue(std::string_view field, std::string_view text, DType& value);

}  // namespace flashinfer
