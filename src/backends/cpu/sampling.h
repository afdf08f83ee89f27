// SPDX-License-Identifier: Apache-2.0
// Softmax, sampling and argmax on the CPU: rows of a vocabulary in pieces.
//
// A row is cut into chunks by its size alone. Partial results are combined in the order of the
// chunks, so that a row's result depends neither on the number of threads nor on the other rows.
#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include "backends/cpu/isa.h"
#include "ops/sampling.h"

namespace flashinfer::cpu {

bool AcceptsVocabulary(const VocabularyProblem& problem, std::string* why);

/// One row, and how its elements become weights. A token's *value* is its logit or probability
/// (with temperature 0: 0, or -inf where that was the logit); its *weight* is
/// 2^((value - max) · scale) for logits, the value itself for probabilities.
struct VocabularyRow {
  const void* data;
  DType dtype;
  bool are_logits;
  bool is_uniform;  ///< temperature 0
  float scale;
  float max;
};

/// Elements of the blocks in which kernels take a row; pieces begin at whole blocks.
inline constexpr int kVocabularyBlock = 256;
inline constexpr int kMaxGroupsPerBlock = 16;

/// Of the values of a piece of a row; NaN aside.
struct Extremes {
  float max;
  float min;
  int64_t max_index;  ///< first of its value; the piece's begin when nothing exceeds -inf
  bool has_nan;
};

/// Keeps values above `value`, and the first `num_ties` equal ones.
struct Cut {
  float value;
  int64_t num_ties;
};

/// What a cut keeps of a piece: weight of the values above, and how many equal it.
struct Mass {
  double above;
  int64_t num_ties;
};

/// Where a filtered row goes: value · factor of the kept tokens, `fill` of the others.
struct KeepOutput {
  void* out;  ///< of token 0
  DType dtype;
  float factor;
  float fill;
};

/// Values from `value` on, which only blocks have whose maxima reach it.
struct ListBound {
  float value;
  const float* maxima;  ///< of the piece's blocks
};

/// Tokens of a piece, in vocabulary order.
struct ListedTokens {
  float* values;
  int32_t* indices;
};

/// What is above each of some falling limits, and the weight of all.
struct CoarseMass {
  static constexpr int kNumLimits = 8;
  int64_t count[kNumLimits];
  double mass[kNumLimits];
  double total;
};

/// Count and weight of the tokens whose order key falls into each bin.
struct Histogram {
  static constexpr int kBinBits = 11;
  static constexpr int kNumBins = 1 << kBinBits;
  int32_t count[kNumBins];
  double mass[kNumBins];
};

/// Which bits of the keys a histogram is over, of those keys that begin with `prefix`.
struct KeyBits {
  int shift;
  int num_bits;
  uint32_t prefix;  ///< key >> (shift + num_bits)
};

/// An integer that is ordered as the float is. No NaN; -0 counts as 0.
inline uint32_t KeyOfBits(uint32_t bits) {
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
inline float ValueOfKey(uint32_t key) {
  return std::bit_cast<float>((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}

/// The kernels of one instruction set; pieces are elements `begin` to `end` of the row.
struct VocabularyKernelTable {
  /// Groups into which each block falls, for their maxima.
  int groups_per_block;
  /// `maxima`, unless it is null, takes the largest values of groups; -inf where one is empty.
  Extremes (*extremes)(const VocabularyRow& row, int64_t begin, int64_t end, float* maxima);
  /// Adds to the histogram.
  void (*count)(const VocabularyRow& row, int64_t begin, int64_t end, const KeyBits& bits,
                Histogram& histogram);
  Mass (*weigh)(const VocabularyRow& row, int64_t begin, int64_t end, const Cut& cut);
  /// The first token, of those kept, at which their cumulative weight reaches `target`; the last
  /// one with any weight when it never does.
  int64_t (*locate)(const VocabularyRow& row, int64_t begin, int64_t end, const Cut& cut,
                    double target);
  float (*weight)(const VocabularyRow& row, float value);
  /// Writes weights and returns their sum.
  double (*exponentiate)(const VocabularyRow& row, int64_t begin, int64_t end, float* out);
  void (*multiply)(float* values, int64_t count, float factor);
  void (*keep)(const VocabularyRow& row, int64_t begin, int64_t end, const Cut& cut,
               const KeepOutput& output);
  CoarseMass (*coarse)(const VocabularyRow& row, int64_t begin, int64_t end, const float* limits);
  /// Lists the values above `low` that are not above `high`, and returns how many.
  int64_t (*collect)(const VocabularyRow& row, int64_t begin, int64_t end, float low, float high,
                     float* values);
  /// Returns how many tokens it lists.
  int64_t (*list)(const VocabularyRow& row, int64_t begin, int64_t end, const ListBound& bound,
                  const ListedTokens& tokens);
  /// 1 <= k <= count; no NaN.
  float (*kth_largest)(const float* values, int64_t count, int64_t k);
  /// out = max(0, a - b); NaN stays.
  void (*positive_difference)(const float* a, const float* b, int64_t count, float* out);
};

#define FLASHINFER_DECLARE(isa, name)               \
  namespace name {                                  \
  const VocabularyKernelTable& VocabularyKernels(); \
  }
FLASHINFER_FOR_EACH_ISA(FLASHINFER_DECLARE)
#undef FLASHINFER_DECLARE

void Softmax(const SoftmaxParams& params, const VocabularyKernelTable& kernels);
void Sample(const SamplingParams& params, const VocabularyKernelTable& kernels);
void ArgMax(const ArgMaxParams& params, const VocabularyKernelTable& kernels);

using VocabularyKernelsFunction = const VocabularyKernelTable&();

template <VocabularyKernelsFunction kKernels>
void RunSoftmax(const SoftmaxParams& params) {
  Softmax(params, kKernels());
}
template <VocabularyKernelsFunction kKernels>
void RunSampling(const SamplingParams& params) {
  Sample(params, kKernels());
}
template <VocabularyKernelsFunction kKernels>
void RunArgMax(const ArgMaxParams& params) {
  ArgMax(params, kKernels());
}

}  // namespace flashinfer::cpu
