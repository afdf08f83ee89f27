// SPDX-License-Identifier: Apache-2.0
// Sampling tokens from logits and probabilities without sorting the vocabulary.
#pragma once

#include <cstdint>

#include "flashinfer/backend.h"
#include "flashinfer/export.h"
#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"

namespace flashinfer {

// Tensors of a call are on one device. On a CUDA device nothing is read by the host: values of
// parameters per row are not checked there. One outside its range is taken as the nearest that is
// accepted, NaN as a filter that is off, an index of no row as row 0.

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
  /// [num_outputs] i32 or i64: output i is drawn from row indices[i], with the parameters, seed and
  /// offset of output i. Undefined view: output i from row i.
  TensorView indices = TensorView();
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
///   tokens  [num_rows]              i32; always in 0..vocab_size-1; [num_outputs] with indices
///   valid   as tokens               bool; undefined view when not wanted
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

/// Keeps the first top_k probabilities of each row, by (probability descending, index ascending),
/// divided by their sum; the others become 0. top_k of 0 or at least the vocabulary keeps all.
///
///   probs  [num_rows, vocab_size]  f32, f16, bf16; need not sum to 1
///   out    as probs; may be `probs` itself
///   top_k  i32 tensor, or a number
///
/// A row that is no distribution (NaN, infinite or negative values, or all 0) becomes NaN.
FLASHINFER_API void TopKRenormProbs(const TensorView& probs, const TensorView& out,
                                    PerRow<int32_t> top_k, Backend backend = Backend(),
                                    Stream stream = {});

/// As TopKRenormProbs(), keeping the shortest prefix of that order with cumulative probability of
/// at least top_p (of the row's sum), one token at least.
///
///   top_p  f32 tensor, or a number
FLASHINFER_API void TopPRenormProbs(const TensorView& probs, const TensorView& out,
                                    PerRow<float> top_p, Backend backend = Backend(),
                                    Stream stream = {});

/// Keeps the first top_k logits of each row, by (logit descending, index ascending); the others
/// become -inf. top_k of 0 or at least the vocabulary keeps all.
///
///   logits  [num_rows, vocab_size]  f32, f16, bf16
///   out     as logits; may be `logits` itself
///
/// A row with NaN is copied: there is no order in it, and samplers know it as invalid.
FLASHINFER_API void TopKMaskLogits(const TensorView& logits, const TensorView& out,
                                   PerRow<int32_t> top_k, Backend backend = Backend(),
                                   Stream stream = {});

/// Where ChainSpeculativeSampling() writes.
struct ChainSpeculativeOutputs {
  TensorView tokens;  ///< [num_rows, num_drafts + 1] i32: accepted drafts, one drawn token, then -1
  /// [num_rows] i32, added to: drafts that would be accepted each by itself, also those after the
  /// first rejection. Undefined view: not wanted.
  TensorView num_accepted = TensorView();
  /// [num_rows] i32, added to: drafts before the first rejection, those that are in `tokens`.
  TensorView num_emitted = TensorView();
};

struct ChainSpeculativeOptions {
  /// As in SamplingOptions. Draft i takes the word at offset + i, the drawn token the one at
  /// offset + num_drafts: num_drafts + 1 more give fresh draws.
  PerRow<int64_t> seed = 0;
  PerRow<int64_t> offset = 0;
  Backend backend = Backend();
};

/// Accepts the longest prefix of drafted tokens that keeps the target's distribution (Leviathan et
/// al., Fast Inference from Transformers via Speculative Decoding, 2023), and draws one token more.
///
///   draft_probs   [num_rows, num_drafts, vocab_size]      f32
///   draft_tokens  [num_rows, num_drafts]                  i32, each in 0..vocab_size-1
///   target_probs  [num_rows, num_drafts + 1, vocab_size]  f32
///
/// Draft i is accepted iff uniform · draft_probs[i, token] < target_probs[i, token]. At the first
/// rejection the token is drawn from max(0, target - draft) of that position (from target where
/// that is 0 everywhere); with none, from the last position of target. A position that is no
/// distribution gives token 0.
FLASHINFER_API void ChainSpeculativeSampling(const TensorView& draft_probs,
                                             const TensorView& draft_tokens,
                                             const TensorView& target_probs,
                                             const ChainSpeculativeOutputs& out,
                                             const ChainSpeculativeOptions& options = {},
                                             Stream stream = {});

}  // namespace flashinfer
