// SPDX-License-Identifier: Apache-2.0
// Renormalising and masking rows on the CPU: a cut, then one pass that keeps what is above it.
#include "backends/cpu/token_filter.h"

#include <cstring>
#include <limits>

#include "backends/cpu/leading_tokens.h"
#include "backends/cpu/vocabulary_row.h"

namespace flashinfer::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

void KeepRow(const VocabularyRow& row, const Chunks& chunks, const Cut& cut, KeepOutput output,
             const VocabularyKernelTable& kernels) {
  const KeptParts kept = KeptOf(row, chunks, cut, kernels);
  if (!row.are_logits) output.factor = static_cast<float>(1 / kept.total);
  chunks.ForEach([&](int i) {
    kernels.keep(row, chunks.begin(i), chunks.end(i),
                 {cut.value, kept.num_ties[static_cast<size_t>(i)]}, output);
  });
}

void FilterRow(const TokenFilterParams& params, int64_t index,
               const VocabularyKernelTable& kernels) {
  static thread_local LeadingTokens leading;
  const VocabularyRows& rows = params.rows;
  const Chunks chunks(rows.vocab_size);
  VocabularyRow row = RowOf(rows, index, 1.0f);
  char* out = static_cast<char*>(params.out) + index * params.out_stride * SizeBytes(rows.dtype);
  const KeepOutput output{out, rows.dtype, 1.0f, rows.are_logits ? -kInfinity : 0.0f};
  const Extremes extremes = leading.Scan(row, chunks, kernels);
  const int64_t top_k = params.top_k[index];
  const bool has_top_k = top_k > 0 && top_k < rows.vocab_size;
  if (rows.are_logits) {
    if (extremes.has_nan || !has_top_k) {
      std::memmove(out, row.data, static_cast<size_t>(rows.vocab_size * SizeBytes(rows.dtype)));
      return;
    }
  } else if (!IsDistribution(row, extremes)) {
    const KeepOutput nothing{out, rows.dtype, 1.0f, std::numeric_limits<float>::quiet_NaN()};
    kernels.keep(row, 0, rows.vocab_size, {kInfinity, 0}, nothing);
    return;
  }
  // A shift that keeps every weight of finite logits finite; top-k only counts.
  row.max = extremes.max;
  Cut cut{-kInfinity, 0};
  if (has_top_k) {
    leading.List(row, chunks, top_k, LeadingTokens::Ties::kLowestIndex, kernels);
    cut = leading.cut();
  }
  const Filters filters{.top_p = params.top_p[index], .min_p = 0};
  if (filters.top_p < 1) {
    const VocabularyRow kept = has_top_k ? leading.AsRow(row) : row;
    const int64_t num_kept = has_top_k ? top_k : rows.vocab_size;
    const Cut by_mass = CutOf(kept, Chunks(num_kept), num_kept, filters, kernels);
    if (IsShorter(by_mass, cut)) cut = by_mass;
  }
  KeepRow(row, chunks, cut, output, kernels);
}

}  // namespace

void TokenFilter(const TokenFilterParams& params, const VocabularyKernelTable& kernels) {
  ForEachRow(params.rows.num_rows, params.rows.vocab_size,
             [&](int64_t row) { FilterRow(params, row, kernels); });
}

}  // namespace flashinfer::cpu
