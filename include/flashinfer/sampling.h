// SPDX-License-Identifier: Apache-2.0
// Sampling tokens from logits and probabilities without sorting the vocabulary.
#pragma once

#include <cstdint>

#include "flashinfer/backend.h"
#include "flashinfer/export.h"
#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"

namespace flashinfer {

/// A value for every row: one number, or a tensor [num_rows] with one per row (or [1] for all).
template <class T>
struct PerRow {
  T value{};
  TensorView tensor = TensorView();
  PerRow(T v) : value(v) {}                   // NOLINT(google-explicit-constructor)
  PerRow(const TensorView& t) : tensor(t) {}  // NOLINT(google-explicit-constructor)
};

/// Which tokens stay, of those ordered by (probability descending, index ascending): every filter
/// keeps a prefix of that order, so the shortest prefix stays.
enum class FilterOrder : uint8_t {
  kTopKFirst,  ///< top-k, renormalise, then top-p, then min-p
  kJoint,      ///< every filter on the original probabilities
};

struct SamplingOptions {
  /// Divides logits; a row of 0 is uniform over its logits that are not -inf. f32 tensor.
  PerRow<float> temperature = 1.0f;
  /// Keeps the first k; 0 or at least the vocabulary: all. i32 tensor.
  PerRow<int32_t> top_k = 0;
  /// Keeps the shortest prefix with cumulative probability >= p, at least one; 1: all. f32 tensor.
  PerRow<float> top_p = 1.0f;
  /// Keeps p_i >= min_p · max p; 0: all. f32 tensor.
  PerRow<float> min_p = 0.0f;
  FilterOrder filter_order = FilterOrder::kTopKFirst;
  /// Each row draws one word of Philox4x32-10, taken as a uniform number (word + 1) / 2^32: what
  /// curand_uniform_double() returns after curand_init(seed, subsequence, offset). With one seed, a
  /// number or a tensor of one, row i has subsequence i; with a seed per row, seed[i] and
  /// subsequence 0, so that a row's token does not depend on its place in the batch. Raising
  /// `offset` by one gives a fresh draw. i64 tensors.
  PerRow<int64_t> seed = 0;
  PerRow<int64_t> offset = 0;
  Backend backend = Backend();
};

/// Probabilities of logits: softmax(logits / temperature), in float32.
///
///   logits  [num_rows, vocab_size]  f32, f16, bf16
///   probs   [num_rows, vocab_size]  f32; may be `logits` itself
///
/// A row that gives no distribution (NaN, +inf, all -inf) becomes NaN.
FLASHINFER_API void Softmax(const TensorView& logits, const TensorView& probs,
                            PerRow<float> temperature = 1.0f, Backend backend = Backend(),
                            Stream stream = {});

/// Draws one token per row from softmax(logits / temperature) after the filters: the first kept
/// one, in vocabulary order, at which the cumulative probability reaches the row's uniform number.
///
///   logits  [num_rows, vocab_size]  f32, f16, bf16
///   tokens  [num_rows]              i32; always in 0..vocab_size-1
///   valid   [num_rows]              bool; undefined view when not wanted
///
/// A row that is no distribution (NaN, +inf, all -inf; for probabilities also a negative one or all
/// 0) gets token 0 and valid = false. Values of options outside their range throw kInvalidArgument
/// naming the row.
FLASHINFER_API void SampleFromLogits(const TensorView& logits, const TensorView& tokens,
                                     const SamplingOptions& options = {},
                                     const TensorView& valid = TensorView(), Stream stream = {});

/// As SampleFromLogits(), from probabilities, which need not sum to 1; `temperature` must be 1.
FLASHINFER_API void SampleFromProbs(const TensorView& probs, const TensorView& tokens,
                                    const SamplingOptions& options = {},
                                    const TensorView& valid = TensorView(), Stream stream = {});

/// The index of each row's largest logit, the lowest on ties. NaN is passed over; a row with NaN or
/// with nothing above -inf has valid = false.
FLASHINFER_API void ArgMax(const TensorView& logits, const TensorView& tokens,
                           const TensorView& valid = TensorView(), Backend backend = Backend(),
                           Stream stream = {});

}  // namespace flashinfer
