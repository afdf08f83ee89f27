// SPDX-License-Identifier: Apache-2.0
// Top-k, top-p and min-p as cuts of a row, found by radix selection instead of sorting.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>

#include "backends/cpu/vocabulary_row.h"

namespace flashinfer::cpu {
namespace {

constexpr int64_t kAllTies = std::numeric_limits<int64_t>::max();

/// Key bits of the three rounds, from the top.
constexpr KeyBits kRounds[] = {{21, 11, 0}, {10, 11, 0}, {0, 10, 0}};

float ValueOfKey(uint32_t key) {
  return std::bit_cast<float>((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}

/// The smallest float that is at least `x`.
float RoundUp(double x) {
  const float nearest = static_cast<float>(x);
  return nearest >= x ? nearest : std::nextafter(nearest, std::numeric_limits<float>::infinity());
}

/// A prefix of the tokens in their order that ends with some of the ties of `cut.value`.
struct Prefix {
  Cut cut;
  double mass;
};

bool IsShorter(const Cut& a, const Cut& b) {
  return a.value > b.value || (a.value == b.value && a.num_ties < b.num_ties);
}

/// Histograms of a row by rounds. Its memory, 220 kB, is kept by the thread for the next row.
class Selection {
 public:
  Selection(const VocabularyRow& row, const Chunks& chunks, const VocabularyKernelTable& kernels)
      : row_(row), chunks_(chunks), kernels_(kernels) {
    static thread_local std::unique_ptr<Memory> memory;
    if (memory == nullptr) memory = std::make_unique<Memory>();
    memory_ = memory.get();
    Build(kRounds[0], memory_->first);
  }

  double TotalMass() const {
    double total = 0;
    for (int bin = Histogram::kNumBins - 1; bin >= 0; --bin) total += memory_->first.mass[bin];
    return total;
  }

  /// The first `count` tokens; there are at least as many.
  Prefix FirstTokens(int64_t count) {
    const End end = Find([&](int64_t c, double) { return c >= count; });
    const int64_t num_ties = std::clamp<int64_t>(count - end.count_above, 1, end.num_ties);
    return MakePrefix(end, num_ties);
  }

  /// The shortest prefix that weighs `target` or more, one token at least.
  Prefix FirstMass(double target) {
    const End end = Find([&](int64_t, double mass) { return mass >= target; });
    const double weight = kernels_.weight(row_, ValueOfKey(end.key));
    const auto reaches = [&](int64_t n) {
      return end.mass_above + static_cast<double>(n) * weight >= target;
    };
    const double guess = weight > 0 ? std::ceil((target - end.mass_above) / weight) : 1;
    auto num_ties = static_cast<int64_t>(std::clamp(guess, 1.0, static_cast<double>(end.num_ties)));
    while (num_ties > 1 && reaches(num_ties - 1)) --num_ties;
    while (num_ties < end.num_ties && !reaches(num_ties)) ++num_ties;
    return MakePrefix(end, num_ties);
  }

 private:
  struct Memory {
    Histogram first;  // of the first round, which every search begins with
    Histogram other;
    Histogram parts[Chunks::kMaxChunks];
  };
  /// The key at which a prefix ends, and what is above it.
  struct End {
    uint32_t key = 0;
    int64_t count_above = 0;
    double mass_above = 0;
    int64_t num_ties = 0;
  };

  Prefix MakePrefix(const End& end, int64_t num_ties) const {
    const float value = ValueOfKey(end.key);
    const double weight = kernels_.weight(row_, value);
    return {{value, num_ties}, end.mass_above + static_cast<double>(num_ties) * weight};
  }

  void Build(const KeyBits& bits, Histogram& sum) {
    chunks_.ForEach([&](int i) {
      Histogram& part = memory_->parts[i];
      std::fill_n(part.count, 1 << bits.num_bits, 0);
      std::fill_n(part.mass, 1 << bits.num_bits, 0.0);
      kernels_.count(row_, chunks_.begin(i), chunks_.end(i), bits, part);
    });
    sum = memory_->parts[0];
    for (int i = 1; i < chunks_.count(); ++i) {
      const Histogram& part = memory_->parts[i];
      for (int bin = 0; bin < 1 << bits.num_bits; ++bin) {
        sum.count[bin] += part.count[bin];
        sum.mass[bin] += part.mass[bin];
      }
    }
  }

  /// Walks down the order until `reached(count, mass)` of all tokens so far; rounding may keep a
  /// mass from being reached, then the end is the last token that weighs anything.
  template <class Reached>
  End Find(const Reached& reached) {
    End end;
    for (int round = 0; round < 3; ++round) {
      KeyBits bits = kRounds[round];
      bits.prefix = end.key;
      if (round > 0) Build(bits, memory_->other);
      const Histogram& histogram = round > 0 ? memory_->other : memory_->first;
      End within = end;
      bool has_end = false;
      for (int bin = (1 << bits.num_bits) - 1; bin >= 0; --bin) {
        const int64_t count = histogram.count[bin];
        const double mass = histogram.mass[bin];
        if (count == 0) continue;
        const bool is_reached = reached(within.count_above + count, within.mass_above + mass);
        if (is_reached || mass > 0 || !has_end) {
          end = within;
          end.key = (bits.prefix << bits.num_bits) | static_cast<uint32_t>(bin);
          end.num_ties = count;
          has_end = true;
        }
        if (is_reached) break;
        within.count_above += count;
        within.mass_above += mass;
      }
    }
    return end;
  }

  const VocabularyRow& row_;
  const Chunks& chunks_;
  const VocabularyKernelTable& kernels_;
  Memory* memory_;
};

/// Values below this have less than `min_p` of the largest weight.
float MinPValue(const VocabularyRow& row, double min_p) {
  if (!row.are_logits) return RoundUp(min_p * row.max);
  return RoundUp(row.max + std::log2(min_p) / row.scale);
}

}  // namespace

Cut CutOf(const VocabularyRow& row, const Chunks& chunks, int64_t vocab_size,
          const Filters& filters, const VocabularyKernelTable& kernels) {
  Cut cut{-std::numeric_limits<float>::infinity(), 0};
  const bool has_top_k = filters.top_k > 0 && filters.top_k < vocab_size;
  const bool has_top_p = filters.top_p < 1;
  if (has_top_k || has_top_p) {
    Selection selection(row, chunks, kernels);
    double mass = 0;
    if (has_top_k) {
      const Prefix prefix = selection.FirstTokens(filters.top_k);
      cut = prefix.cut;
      mass = prefix.mass;
    }
    if (has_top_p) {
      if (!has_top_k || filters.order == FilterOrder::kJoint) mass = selection.TotalMass();
      const Cut by_mass = selection.FirstMass(filters.top_p * mass).cut;
      if (!has_top_k || IsShorter(by_mass, cut)) cut = by_mass;
    }
  }
  if (filters.min_p > 0) {
    const Cut by_weight{MinPValue(row, filters.min_p), kAllTies};
    if (IsShorter(by_weight, cut)) cut = by_weight;
  }
  return cut;
}

}  // namespace flashinfer::cpu
