// SPDX-License-Identifier: Apache-2.0
// Top-k selection on the CPU: a list of the leading tokens, and a sort of that.
#include "backends/cpu/topk.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "backends/cpu/leading_tokens.h"
#include "backends/cpu/vocabulary_row.h"
#include "core/convert.h"

namespace flashinfer::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The chosen tokens of one row, by index.
struct Chosen {
  const float* values;
  const int32_t* indices;
  int64_t count;
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

/// Memory of a thread, kept for the next row.
struct Memory {
  LeadingTokens leading;
  std::vector<float> values;  // of a row with NaN
  std::vector<int32_t> indices;
  std::vector<int32_t> order;
};

/// Chooses from any row, by comparisons: NaN first.
Chosen SelectWithNan(const VocabularyRow& row, const Range& range, bool takes_highest,
                     Memory& memory) {
  const auto key = [&](int32_t i) {
    const float value = ValueAt(row, i);
    return std::isnan(value) ? std::numeric_limits<double>::infinity()
           : std::isinf(value)
               ? std::copysign(std::numeric_limits<double>::max(), static_cast<double>(value))
               : static_cast<double>(value);
  };
  memory.indices.resize(static_cast<size_t>(range.length));
  std::iota(memory.indices.begin(), memory.indices.end(), 0);
  std::nth_element(memory.indices.begin(), memory.indices.begin() + range.count - 1,
                   memory.indices.end(), [&](int32_t a, int32_t b) {
                     const double x = key(a);
                     const double y = key(b);
                     return x != y ? x > y : takes_highest ? a > b : a < b;
                   });
  memory.indices.resize(static_cast<size_t>(range.count));
  std::sort(memory.indices.begin(), memory.indices.end());
  memory.values.clear();
  memory.values.reserve(memory.indices.size());
  for (int32_t i : memory.indices) memory.values.push_back(ValueAt(row, i));
  return {memory.values.data(), memory.indices.data(), range.count};
}

Chosen Select(const VocabularyRow& row, const Range& range, bool takes_highest,
              const VocabularyKernelTable& kernels, Memory& memory) {
  const Chunks chunks(range.length);
  LeadingTokens& leading = memory.leading;
  const Extremes extremes = leading.Scan(row, chunks, kernels);
  if (extremes.has_nan) return SelectWithNan(row, range, takes_highest, memory);
  using Ties = LeadingTokens::Ties;
  leading.List(row, chunks, range.count, takes_highest ? Ties::kHighestIndex : Ties::kLowestIndex,
               kernels);
  return {leading.values(), leading.indices(), leading.count()};
}

/// Positions of the chosen tokens in the order of the output.
void OrderOf(const Chosen& chosen, bool sorted, std::vector<int32_t>& order) {
  order.resize(static_cast<size_t>(chosen.count));
  std::iota(order.begin(), order.end(), 0);
  if (!sorted) return;
  // Positions rise with indices. A NaN is before everything but another one.
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const float x = chosen.values[a];
    const float y = chosen.values[b];
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
  static thread_local Memory memory;
  const int64_t size = SizeBytes(params.rows.dtype);
  const int64_t start = params.row_starts[index];
  const int64_t length = std::min<int64_t>(params.lengths[index], params.rows.vocab_size - start);
  const Range range{length, std::min(params.k, length)};
  VocabularyRow row = RowOf(params.rows, index, 1.0f);
  row.data = static_cast<const char*>(row.data) + start * size;
  Chosen chosen{};
  if (range.count > 0) {
    const bool takes_highest = params.tie_break == TieBreak::kHighestIndex;
    chosen = Select(row, range, takes_highest, kernels, memory);
  }
  OrderOf(chosen, params.sorted, memory.order);
  for (int64_t column = 0; column < params.k; ++column) {
    const bool is_there = column < range.count;
    const int64_t at = is_there ? chosen.indices[memory.order[static_cast<size_t>(column)]] : -1;
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
