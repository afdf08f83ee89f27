// SPDX-License-Identifier: Apache-2.0
// Top-k selection on the CPU: a cut by radix selection, a list of what it keeps, a sort of that.
#include "backends/cpu/topk.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "backends/cpu/vocabulary_row.h"
#include "core/convert.h"

namespace flashinfer::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// In powers of two of a weight, of which the coarse selection's limits cover the first 16.
constexpr float kCoarseSpread = 24;

/// The chosen tokens of one row, kept by the thread for the next one.
struct Chosen {
  std::vector<float> values;
  std::vector<int32_t> indices;
};

/// The columns of a row, and how many of them are chosen, at least one.
struct Range {
  int64_t length;
  int64_t count;
};

float ValueAt(const VocabularyRow& row, int32_t i) {
  if (row.dtype == DType::kF32) return static_cast<const float*>(row.data)[i];
  if (row.dtype == DType::kF16) return ToFloat(static_cast<const F16*>(row.data)[i]);
  return ToFloat(static_cast<const BF16*>(row.data)[i]);
}

/// Lists the first `count` of a row without NaN, by index.
void Select(const VocabularyRow& row, const Range& range, const TopKParams& params,
            const VocabularyKernelTable& kernels, Chosen& chosen) {
  const Chunks chunks(range.length);
  const int64_t num_cols = range.length;
  const int64_t count = range.count;
  Cut cut{-kInfinity, std::numeric_limits<int64_t>::max()};
  if (count < num_cols) cut = CutOf(row, chunks, num_cols, {count, 1, 0, {}}, kernels);
  const int num_chunks = chunks.count();
  std::array<Mass, Chunks::kMaxChunks> masses{};
  chunks.ForEach([&](int i) {
    masses[static_cast<size_t>(i)] = kernels.weigh(row, chunks.begin(i), chunks.end(i), cut);
  });
  const bool takes_highest = params.tie_break == TieBreak::kHighestIndex;
  std::array<int64_t, Chunks::kMaxChunks> num_ties{};
  int64_t ties_left = cut.num_ties;
  for (int n = 0; n < num_chunks; ++n) {
    const auto i = static_cast<size_t>(takes_highest ? num_chunks - 1 - n : n);
    num_ties[i] = std::min(ties_left, masses[i].num_ties);
    ties_left -= num_ties[i];
  }
  // Each chunk lists into room for the most that it can keep.
  std::array<int64_t, Chunks::kMaxChunks + 1> room{};
  for (int i = 0; i < num_chunks; ++i) {
    room[static_cast<size_t>(i) + 1] =
        room[static_cast<size_t>(i)] + std::min(count, chunks.end(i) - chunks.begin(i));
  }
  chosen.values.resize(static_cast<size_t>(room[static_cast<size_t>(num_chunks)]));
  chosen.indices.resize(chosen.values.size());
  std::array<int64_t, Chunks::kMaxChunks> counts{};
  chunks.ForEach([&](int chunk) {
    const auto i = static_cast<size_t>(chunk);
    const int64_t skip = takes_highest ? masses[i].num_ties - num_ties[i] : 0;
    counts[i] =
        kernels.list(row, chunks.begin(chunk), chunks.end(chunk), {cut.value, num_ties[i]},
                     {skip, chosen.values.data() + room[i], chosen.indices.data() + room[i]});
  });
  int64_t total = counts[0];
  for (size_t i = 1; i < static_cast<size_t>(num_chunks); ++i) {
    std::copy_n(chosen.values.begin() + room[i], counts[i], chosen.values.begin() + total);
    std::copy_n(chosen.indices.begin() + room[i], counts[i], chosen.indices.begin() + total);
    total += counts[i];
  }
  chosen.values.resize(static_cast<size_t>(total));
  chosen.indices.resize(static_cast<size_t>(total));
}

/// The same for any row, by comparisons: NaN first.
void SelectWithNan(const VocabularyRow& row, const Range& range, const TopKParams& params,
                   Chosen& chosen) {
  const auto key = [&](int32_t i) {
    const float value = ValueAt(row, i);
    return std::isnan(value) ? std::numeric_limits<double>::infinity()
           : std::isinf(value)
               ? std::copysign(std::numeric_limits<double>::max(), static_cast<double>(value))
               : static_cast<double>(value);
  };
  const bool takes_highest = params.tie_break == TieBreak::kHighestIndex;
  chosen.indices.resize(static_cast<size_t>(range.length));
  std::iota(chosen.indices.begin(), chosen.indices.end(), 0);
  std::nth_element(chosen.indices.begin(), chosen.indices.begin() + range.count - 1,
                   chosen.indices.end(), [&](int32_t a, int32_t b) {
                     const double x = key(a);
                     const double y = key(b);
                     return x != y ? x > y : takes_highest ? a > b : a < b;
                   });
  chosen.indices.resize(static_cast<size_t>(range.count));
  std::sort(chosen.indices.begin(), chosen.indices.end());
  chosen.values.clear();
  chosen.values.reserve(chosen.indices.size());
  for (int32_t i : chosen.indices) {
    const float value = ValueAt(row, i);
    chosen.values.push_back(std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : value);
  }
}

/// Positions of the chosen tokens in the order of the output.
void OrderOf(const Chosen& chosen, bool sorted, std::vector<int32_t>& order) {
  order.resize(chosen.values.size());
  std::iota(order.begin(), order.end(), 0);
  if (!sorted) return;
  // Positions rise with indices. A NaN is before everything but another one.
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const float x = chosen.values[static_cast<size_t>(a)];
    const float y = chosen.values[static_cast<size_t>(b)];
    if (x > y || (std::isnan(x) && !std::isnan(y))) return true;
    if (x < y || (std::isnan(y) && !std::isnan(x))) return false;
    return a < b;
  });
}

void WriteIndex(const TopKParams& params, int64_t row, int64_t column, int64_t index) {
  const int64_t at = row * params.indices_stride + column;
  if (params.indices_are_64_bit) {
    static_cast<int64_t*>(params.indices)[at] = index;
  } else {
    static_cast<int32_t*>(params.indices)[at] = static_cast<int32_t>(index);
  }
}

/// The element as it is in the row, or -inf for index -1.
void WriteValue(const VocabularyRow& row, int64_t index, char* to) {
  const auto size = static_cast<size_t>(SizeBytes(row.dtype));
  if (index >= 0) {
    std::memcpy(to, static_cast<const char*>(row.data) + static_cast<size_t>(index) * size, size);
  } else if (row.dtype == DType::kF32) {
    std::memcpy(to, &kInfinity, size);
    to[3] = static_cast<char>(to[3] | 0x80);
  } else {
    const uint16_t bits = row.dtype == DType::kF16 ? 0xfc00 : 0xff80;
    std::memcpy(to, &bits, size);
  }
}

void TopKRow(const TopKParams& params, int64_t index, const VocabularyKernelTable& kernels) {
  static thread_local Chosen chosen;
  static thread_local std::vector<int32_t> order;
  const int64_t size = SizeBytes(params.rows.dtype);
  const int64_t start = params.row_starts[index];
  const int64_t length = std::min<int64_t>(params.lengths[index], params.rows.vocab_size - start);
  const Range range{length, std::min(params.k, length)};
  VocabularyRow row = RowOf(params.rows, index, 1.0f);
  row.data = static_cast<const char*>(row.data) + start * size;
  chosen.values.clear();
  if (range.count > 0) {
    const Extremes extremes = ExtremesOf(row, Chunks(length), kernels);
    // Only counts matter; the scale lays the selection's coarse limits over the row's values.
    row.max = extremes.max;
    const float spread = extremes.max - extremes.min;
    if (spread > 0 && std::isfinite(spread)) row.scale = kCoarseSpread / spread;
    if (extremes.has_nan) {
      SelectWithNan(row, range, params, chosen);
    } else {
      Select(row, range, params, kernels, chosen);
    }
  }
  OrderOf(chosen, params.sorted, order);
  for (int64_t column = 0; column < params.k; ++column) {
    const bool is_there = column < range.count;
    const int64_t at =
        is_there ? chosen.indices[static_cast<size_t>(order[static_cast<size_t>(column)])] : -1;
    WriteIndex(params, index, column, is_there ? params.map(index, at) : -1);
    if (params.values == nullptr) continue;
    char* to = static_cast<char*>(params.values) + (index * params.values_stride + column) * size;
    WriteValue(row, at, to);
  }
}

}  // namespace

void TopK(const TopKParams& params, const VocabularyKernelTable& kernels) {
  if (params.k == 0) return;
  ForEachRow(params.rows.num_rows, params.rows.vocab_size,
             [&](int64_t row) { TopKRow(params, row, kernels); });
}

}  // namespace flashinfer::cpu
