// SPDX-License-Identifier: Apache-2.0
// Top-p and min-p as cuts of a row, found by radix selection; only few tokens are sorted.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "backends/cpu/vocabulary_row.h"

namespace flashinfer::cpu {
namespace {

constexpr int64_t kAllTies = std::numeric_limits<int64_t>::max();

/// Key bits of the three rounds, from the top.
constexpr KeyBits kRounds[] = {{21, 11, 0}, {10, 11, 0}, {0, 10, 0}};

/// The smallest float that is at least `x`.
float RoundUp(double x) {
  const float nearest = static_cast<float>(x);
  return nearest >= x ? nearest : std::nextafter(nearest, std::numeric_limits<float>::infinity());
}

/// Tokens that are sorted rather than counted in histograms of thousands of bins.
constexpr int64_t kFewTokens = 256;

/// The shortest prefix of a few floats that weighs `target` or more; as Selection::FirstMass().
Cut FirstMassOfFew(const VocabularyRow& row, int64_t count, double target,
                   const VocabularyKernelTable& kernels) {
  std::array<float, kFewTokens> values{};
  std::array<float, kFewTokens> weights{};
  const auto size = static_cast<size_t>(count);
  std::copy_n(static_cast<const float*>(row.data), size, values.begin());
  std::sort(values.begin(), values.begin() + size, std::greater<>());
  VocabularyRow sorted = row;
  sorted.data = values.data();
  kernels.exponentiate(sorted, 0, count, weights.data());
  size_t last = 0;
  double mass = 0;
  for (size_t i = 0; i < size && mass < target; ++i) {
    mass += static_cast<double>(weights[i]);
    if (weights[i] > 0) last = i;
  }
  const float value = values[last] + 0.0f;  // -0 is 0
  return {value, std::count(values.begin(), values.begin() + last + 1, value)};
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

  /// The shortest prefix that weighs `target` or more, one token at least. Rounding may keep the
  /// mass from being reached, then it ends with the last token that weighs anything.
  Cut FirstMass(double target) {
    const End end = Find(target);
    const double weight = kernels_.weight(row_, ValueOfKey(end.key));
    const auto reaches = [&](int64_t n) {
      return end.mass_above + static_cast<double>(n) * weight >= target;
    };
    const double guess = weight > 0 ? std::ceil((target - end.mass_above) / weight) : 1;
    auto num_ties = static_cast<int64_t>(std::clamp(guess, 1.0, static_cast<double>(end.num_ties)));
    while (num_ties > 1 && reaches(num_ties - 1)) --num_ties;
    while (num_ties < end.num_ties && !reaches(num_ties)) ++num_ties;
    return {ValueOfKey(end.key), num_ties};
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
    double mass_above = 0;
    int64_t num_ties = 0;
  };

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

  End Find(double target) {
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
        const bool is_reached = within.mass_above + mass >= target;
        if (is_reached || mass > 0 || !has_end) {
          end = within;
          end.key = (bits.prefix << bits.num_bits) | static_cast<uint32_t>(bin);
          end.num_ties = count;
          has_end = true;
        }
        if (is_reached) break;
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

/// Selection after one coarse pass: it tells between which two limits a prefix ends, and the
/// selection is over the tokens there, some hundreds or thousands of a large vocabulary.
class CoarseSelection {
 public:
  CoarseSelection(const VocabularyRow& row, const Chunks& chunks, int64_t vocab_size,
                  const VocabularyKernelTable& kernels)
      : row_(row), chunks_(chunks), vocab_size_(vocab_size), kernels_(kernels) {
    // Weights of the largest value's 1/4, 1/16, …
    for (size_t i = 0; i < limits_.size(); ++i) {
      const double fall = 2.0 * static_cast<double>(i + 1);
      limits_[i] = static_cast<float>(row.are_logits ? row.max - fall / row.scale
                                                     : row.max * std::exp2(-fall));
    }
    std::array<CoarseMass, Chunks::kMaxChunks> parts{};
    chunks.ForEach([&](int i) {
      parts[static_cast<size_t>(i)] =
          kernels.coarse(row, chunks.begin(i), chunks.end(i), limits_.data());
    });
    for (const CoarseMass& part : parts) {
      for (size_t i = 0; i < limits_.size(); ++i) {
        sum_.count[i] += part.count[i];
        sum_.mass[i] += part.mass[i];
      }
      sum_.total += part.total;
    }
  }

  double TotalMass() const { return sum_.total; }

  Cut FirstMass(double target) const {
    size_t i = 0;
    while (i < limits_.size() && sum_.mass[i] < target) ++i;
    const int64_t count_above = i == 0 ? 0 : sum_.count[i - 1];
    if (i == limits_.size() || sum_.count[i] - count_above > vocab_size_ / 4) {
      return Selection(row_, chunks_, kernels_).FirstMass(target);
    }
    static thread_local std::vector<float> values;
    values.resize(static_cast<size_t>(vocab_size_));
    const float high = i == 0 ? std::numeric_limits<float>::infinity() : limits_[i - 1];
    VocabularyRow part = row_;
    part.dtype = DType::kF32;
    part.data = values.data();
    const int64_t count = Collect(limits_[i], high, values.data());
    const double rest = i == 0 ? target : target - sum_.mass[i - 1];
    if (count <= kFewTokens) return FirstMassOfFew(part, count, rest, kernels_);
    return Selection(part, Chunks(count), kernels_).FirstMass(rest);
  }

 private:
  int64_t Collect(float low, float high, float* values) const {
    std::array<int64_t, Chunks::kMaxChunks> counts{};
    chunks_.ForEach([&](int i) {
      const int64_t begin = chunks_.begin(i);
      counts[static_cast<size_t>(i)] =
          kernels_.collect(row_, begin, chunks_.end(i), low, high, values + begin);
    });
    int64_t total = counts[0];
    for (int i = 1; i < chunks_.count(); ++i) {
      const int64_t count = counts[static_cast<size_t>(i)];
      std::copy_n(values + chunks_.begin(i), count, values + total);
      total += count;
    }
    return total;
  }

  const VocabularyRow& row_;
  const Chunks& chunks_;
  int64_t vocab_size_;
  const VocabularyKernelTable& kernels_;
  std::array<float, CoarseMass::kNumLimits> limits_{};
  CoarseMass sum_{};
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
  const bool are_few = vocab_size <= kFewTokens && row.dtype == DType::kF32 && !row.is_uniform;
  if (filters.top_p < 1 && are_few) {
    const double mass = filters.mass > 0 ? filters.mass : MassOf(row, chunks, kernels);
    cut = FirstMassOfFew(row, vocab_size, filters.top_p * mass, kernels);
  } else if (filters.top_p < 1) {
    const CoarseSelection selection(row, chunks, vocab_size, kernels);
    const double mass = filters.mass > 0 ? filters.mass : selection.TotalMass();
    cut = selection.FirstMass(filters.top_p * mass);
  }
  if (filters.min_p > 0) {
    const Cut by_weight{MinPValue(row, filters.min_p), kAllTies};
    if (IsShorter(by_weight, cut)) cut = by_weight;
  }
  return cut;
}

}  // namespace flashinfer::cpu
