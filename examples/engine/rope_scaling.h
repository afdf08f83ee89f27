// SPDX-License-Identifier: Apache-2.0
// Rotary embedding as a GGUF file describes it.
#pragma once

#include "engine/checkpoint.h"
#include "engine/gguf.h"

namespace flashinfer::engine {

/// The name of the tensor that scales frequencies one by one, as Llama 3.1 does.
inline constexpr std::string_view kRopeFactorsName = "rope_freqs.weight";

/// Reads `<architecture>.rope.*` and the factors tensor. `config` has everything but `rope`.
RopeConfig ReadRope(const GgufFile& file, const ModelConfig& config);

/// What YaRN divides the frequency of pair `pair` by (Peng et al., YaRN, 2023, section 3.2): 1
/// for pairs that turn more than `beta_fast` times within the original context, `factor` for those
/// that turn less than `beta_slow` times, and in between their blend.
struct YarnOptions {
  double factor = 1;
  double original_context = 0;  ///< tokens
  double beta_fast = 32;
  double beta_slow = 1;
  double extrapolation = 1;  ///< weight of the unscaled frequencies
};
double YarnFrequencyFactor(const YarnOptions& options, int64_t rotary_dim, double theta,
                           int64_t pair);

}  // namespace flashinfer::engine
