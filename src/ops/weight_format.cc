// SPDX-License-Identifier: Apache-2.0
// The table of weight formats.
#include <fmt/format.h>

#include <array>

#include "core/name_table.h"
#include "ops/linear.h"

namespace flashinfer {
namespace {

struct FormatRow {
  WeightFormat format;
  std::string_view name;
  int64_t block_size;
  int64_t block_bytes;
};

constexpr std::array<FormatRow, kNumWeightFormats> kFormats{{
    {WeightFormat::kF32, "f32", 1, 4},
    {WeightFormat::kF16, "f16", 1, 2},
    {WeightFormat::kBF16, "bf16", 1, 2},
    {WeightFormat::kQ4_0, "q4_0", 32, 18},
    {WeightFormat::kQ4_1, "q4_1", 32, 20},
    {WeightFormat::kQ8_0, "q8_0", 32, 34},
    {WeightFormat::kQ4_K, "q4_k", 256, 144},
    {WeightFormat::kQ6_K, "q6_k", 256, 210},
    {WeightFormat::kQ5_0, "q5_0", 32, 22},
    {WeightFormat::kQ5_1, "q5_1", 32, 24},
    {WeightFormat::kQ5_K, "q5_k", 256, 176},
    {WeightFormat::kMXFP4, "mxfp4", 32, 17},
}};

constexpr bool TableFollowsEnum() {
  for (size_t i = 0; i < kFormats.size(); ++i) {
    if (kFormats[i].format != static_cast<WeightFormat>(i)) return false;
  }
  return true;
}
static_assert(TableFollowsEnum());

const FormatRow& RowOf(WeightFormat format) { return kFormats[static_cast<size_t>(format)]; }

}  // namespace

std::string_view Name(WeightFormat format) { return RowOf(format).name; }
int64_t BlockSize(WeightFormat format) { return RowOf(format).block_size; }
int64_t BlockBytes(WeightFormat format) { return RowOf(format).block_bytes; }

std::string ValueText(WeightFormat value) { return std::string(Name(value)); }

std::string SourceText(WeightFormat value) {
  constexpr std::array<std::string_view, kNumWeightFormats> kNames{
      "kF32",  "kF16",  "kBF16", "kQ4_0", "kQ4_1", "kQ8_0",
      "kQ4_K", "kQ6_K", "kQ5_0", "kQ5_1", "kQ5_K", "kMXFP4"};
  return fmt::format("WeightFormat::{}", kNames.at(static_cast<size_t>(value)));
}

void ParseValue(std::string_view field, std::string_view text, WeightFormat& value) {
  std::array<std::string_view, kFormats.size()> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = kFormats[i].name;
  value = static_cast<WeightFormat>(IndexOfName(field, text, names));
}

}  // namespace flashinfer
