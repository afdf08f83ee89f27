// SPDX-License-Identifier: Apache-2.0
// Resolving of rope scalings into factors for each pair.
#include "engine/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "engine/read_error.h"

namespace flashinfer::engine {
namespace {

class RopeReader {
 public:
  RopeReader(const GgufFile& file, const ModelConfig& config)
      : file_(file), config_(config), prefix_(fmt::format("{}.rope.", Name(config.architecture))) {}

  RopeConfig Read() {
    rope_.style =
        config_.architecture == Architecture::kLlama ? RopeStyle::kInterleaved : RopeStyle::kNeox;
    ReadRotaryDim();
    rope_.theta = static_cast<float>(Positive("freq_base", 1e4));
    ReadFactorsTensor();
    const double factor = Positive("scaling.factor", Positive("scale_linear", 1));
    // A factor without a type is linear, as files of before the type were written.
    const auto type = file_.GetString(prefix_ + "scaling.type", "linear");
    if (type == "linear") {
      rope_.scale = static_cast<float>(factor);
    } else if (type == "yarn") {
      ApplyYarn(factor);
    } else if (type != "none") {
      Fail(ErrorKind::kUnsupported, "{}: {}scaling.type is {}, none, linear and yarn are supported",
           file_.name(), prefix_, Quoted(type));
    }
    rope_.magnitude *= static_cast<float>(Positive("scaling.attn_factor", 1));
    if (rope_.magnitude != 1 && rope_.rotary_dim != config_.head_dim) {
      Fail(ErrorKind::kUnsupported,
           "{}: {}dimension_count is {}, with this scaling only the whole head of {} is supported",
           file_.name(), prefix_, rope_.rotary_dim, config_.head_dim);
    }
    return rope_;
  }

 private:
  double Positive(const std::string& key, double fallback) const {
    const double value = file_.GetFloat(prefix_ + key, fallback);
    if (!(value > 0) || !std::isfinite(static_cast<float>(value))) {
      Fail(ErrorKind::kInvalidArgument, "{}: {}{} is {}, a positive number is accepted",
           file_.name(), prefix_, key, value);
    }
    return value;
  }

  void ReadRotaryDim() {
    rope_.rotary_dim = file_.GetInt(prefix_ + "dimension_count", config_.head_dim);
    if (rope_.rotary_dim < 2 || rope_.rotary_dim > config_.head_dim || rope_.rotary_dim % 2 != 0) {
      Fail(ErrorKind::kInvalidArgument,
           "{}: {}dimension_count is {}, an even number from 2 to the head's {} is accepted",
           file_.name(), prefix_, rope_.rotary_dim, config_.head_dim);
    }
  }

  void ReadFactorsTensor() {
    const GgufTensor* tensor = file_.FindTensor(kRopeFactorsName);
    if (tensor == nullptr) return;
    if (tensor->type != GgmlType::kF32 || tensor->num_dims != 1 ||
        tensor->cols() != rope_.rotary_dim / 2) {
      Fail(ErrorKind::kInvalidArgument, "{}: tensor '{}' must be [{}] of F32", file_.name(),
           kRopeFactorsName, rope_.rotary_dim / 2);
    }
    rope_.frequency_factors.resize(static_cast<size_t>(tensor->cols()));
    std::memcpy(rope_.frequency_factors.data(), tensor->bytes.data(), tensor->bytes.size());
    for (const float factor : rope_.frequency_factors) {
      if (!(factor > 0) || !std::isfinite(factor)) {
        Fail(ErrorKind::kInvalidArgument, "{}: tensor '{}' holds {}, positive numbers are accepted",
             file_.name(), kRopeFactorsName, factor);
      }
    }
  }

  void ApplyYarn(double factor) {
    const double extrapolation = Positive("scaling.yarn_ext_factor", 1);
    if (factor < 1 || extrapolation > 1 || !(rope_.theta > 1)) {
      Fail(ErrorKind::kInvalidArgument,
           "{}: YaRN with {}scaling.factor {}, scaling.yarn_ext_factor {} and freq_base {}: at "
           "least 1, at most 1 and more than 1 are accepted",
           file_.name(), prefix_, factor, extrapolation, rope_.theta);
    }
    const int64_t context =
        file_.GetInt(prefix_ + "scaling.original_context_length", config_.context_length);
    const YarnOptions options{
        .factor = factor,
        .original_context = static_cast<double>(std::max<int64_t>(1, context)),
        .beta_fast = Positive("scaling.yarn_beta_fast", 32),
        .beta_slow = Positive("scaling.yarn_beta_slow", 1),
        .extrapolation = extrapolation};
    rope_.frequency_factors.resize(static_cast<size_t>(rope_.rotary_dim / 2), 1.0f);
    for (int64_t pair = 0; pair < rope_.rotary_dim / 2; ++pair) {
      rope_.frequency_factors[static_cast<size_t>(pair)] *=
          static_cast<float>(YarnFrequencyFactor(options, rope_.rotary_dim, rope_.theta, pair));
    }
    rope_.magnitude =
        static_cast<float>((1 + 0.1 * std::log(factor)) * Positive("scaling.yarn_attn_factor", 1));
  }

  const GgufFile& file_;
  const ModelConfig& config_;
  const std::string prefix_;
  RopeConfig rope_;
};

}  // namespace

double YarnFrequencyFactor(const YarnOptions& options, int64_t rotary_dim, double theta,
                           int64_t pair) {
  // The pair that turns `num_turns` times within the original context.
  const auto pair_of = [&](double num_turns) {
    const double wavelength = options.original_context / (num_turns * 2 * std::numbers::pi);
    return static_cast<double>(rotary_dim) * std::log(wavelength) / (2 * std::log(theta));
  };
  const double last = static_cast<double>(rotary_dim - 1);
  const double low = std::max(0.0, std::floor(pair_of(options.beta_fast)));
  const double high = std::min(last, std::ceil(pair_of(options.beta_slow)));
  const double ramp = (static_cast<double>(pair) - low) / std::max(0.001, high - low);
  const double unscaled = (1 - std::clamp(ramp, 0.0, 1.0)) * options.extrapolation;
  return 1 / ((1 - unscaled) / options.factor + unscaled);
}

RopeConfig ReadRope(const GgufFile& file, const ModelConfig& config) {
  return RopeReader(file, config).Read();
}

}  // namespace flashinfer::engine
