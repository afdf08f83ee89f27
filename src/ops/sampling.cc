// SPDX-License-Identifier: Apache-2.0
// Softmax, sampling and argmax: check, choose, run.
#include "ops/sampling.h"

#include <limits>

#include "core/check.h"
#include "core/log.h"
#include "dispatch/choose.h"

namespace flashinfer {
namespace {

constexpr float kMaxFloat = std::numeric_limits<float>::max();

/// The values that a parameter may take, and how a message says so.
template <class T>
struct Accepted {
  DType dtype;
  T low;
  T high;
  std::string_view text;
};

constexpr Accepted<float> kTemperatures{DType::kF32, 0, kMaxFloat, "0 or more"};
constexpr Accepted<float> kFractions{DType::kF32, 0, 1, "0 to 1"};
constexpr Accepted<int32_t> kCounts{DType::kI32, 0, std::numeric_limits<int32_t>::max(),
                                    "0 (all) or more"};
constexpr Accepted<int64_t> kAny{DType::kI64, std::numeric_limits<int64_t>::min(),
                                 std::numeric_limits<int64_t>::max(), "any"};

template <class T>
RowValues<T> Check(std::string_view name, const PerRow<T>& values, const TensorView& rows,
                   const Accepted<T>& accepted) {
  const auto is_good = [&](T v) { return v >= accepted.low && v <= accepted.high; };
  if (!values.tensor.defined()) {
    FLASHINFER_CHECK(is_good(values.value), "{}: is {}, accepted: {}", name, values.value,
                     accepted.text);
    return {.value = values.value};
  }
  const TensorView& tensor = values.tensor;
  const bool is_single = tensor.rank() == 1 && tensor.shape(0) == 1;
  CheckTensor(name, tensor)
      .On(rows.device())
      .Is(accepted.dtype)
      .Shape({is_single ? 1 : rows.shape(0)});
  const RowValues<T> checked{.data = tensor.data_as<const T>(),
                             .stride = is_single ? 0 : tensor.stride(0)};
  for (int64_t row = 0; row < tensor.shape(0); ++row) {
    FLASHINFER_CHECK(is_good(checked[row]), "{}: row {} is {}, accepted: {}", name, row,
                     checked[row], accepted.text);
  }
  if (is_single) return {.value = *checked.data};
  return checked;
}

VocabularyRows CheckRows(std::string_view name, const TensorView& rows, bool are_logits) {
  CheckTensor(name, rows).IsOneOf({DType::kF32, DType::kF16, DType::kBF16}).Rank(2).LastDimDense();
  FLASHINFER_CHECK(rows.shape(1) > 0 && rows.shape(1) <= std::numeric_limits<int32_t>::max(),
                   "{}: vocab_size is {}, accepted: 1 to 2147483647", name, rows.shape(1));
  return {.data = rows.data(),
          .num_rows = rows.shape(0),
          .vocab_size = rows.shape(1),
          .stride = rows.stride(0),
          .dtype = rows.dtype(),
          .are_logits = are_logits};
}

TokenOutputs CheckOutputs(const TensorView& rows, const TensorView& tokens,
                          const TensorView& valid) {
  const int64_t num_rows = rows.shape(0);
  CheckTensor("tokens", tokens).On(rows.device()).Is(DType::kI32).Shape({num_rows}).NoOverlap();
  TokenOutputs out{tokens.data_as<int32_t>(), tokens.stride(0), nullptr, 0};
  if (valid.defined()) {
    CheckTensor("valid", valid).On(rows.device()).Is(DType::kBool).Shape({num_rows}).NoOverlap();
    out.valid = valid.data_as<bool>();
    out.valid_stride = valid.stride(0);
  }
  return out;
}

template <class T>
LogArgument Argument(std::string_view name, const PerRow<T>& values) {
  if (values.tensor.defined()) return {name, values.tensor};
  return {name, ValueText(values.value)};
}

/// `rows` is logits or probs, as `name` says.
void LogSampling(std::string_view op, std::string_view name, const TensorView& rows,
                 const TensorView& tokens, const TensorView& valid, const SamplingOptions& o) {
  LogCall(op, {{name, rows},
               {"tokens", tokens},
               {"valid", valid},
               Argument("temperature", o.temperature),
               Argument("top_k", o.top_k),
               Argument("top_p", o.top_p),
               Argument("min_p", o.min_p),
               {"filter_order", o.filter_order == FilterOrder::kJoint ? "joint" : "top_k_first"},
               Argument("seed", o.seed),
               Argument("offset", o.offset)});
}

void Sample(std::string_view op, std::string_view name, const TensorView& rows, bool are_logits,
            const TensorView& tokens, const SamplingOptions& options, const TensorView& valid) {
  if (LogLevel() > 0) [[unlikely]]
    LogSampling(op, name, rows, tokens, valid, options);
  const SamplingParams params{
      .rows = CheckRows(name, rows, are_logits),
      .out = CheckOutputs(rows, tokens, valid),
      .temperature = Check("temperature", options.temperature, rows, kTemperatures),
      .top_k = Check("top_k", options.top_k, rows, kCounts),
      .top_p = Check("top_p", options.top_p, rows, kFractions),
      .min_p = Check("min_p", options.min_p, rows, kFractions),
      .seed = Check("seed", options.seed, rows, kAny),
      .offset = Check("offset", options.offset, rows, kAny),
      .filter_order = options.filter_order};
  FLASHINFER_CHECK(are_logits || (params.temperature.data == nullptr && params.temperature[0] == 1),
                   "temperature: is given, expected 1: it divides logits, not probabilities");
  Choose<SamplingOp>({rows.dtype(), rows.shape(1)}, options.backend)(params);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn(op, {{"tokens", tokens}, {"valid", valid}});
}

}  // namespace

void Softmax(const TensorView& logits, const TensorView& probs, PerRow<float> temperature,
             Backend backend, Stream) {
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("softmax",
            {{"logits", logits}, {"probs", probs}, Argument("temperature", temperature)});
  }
  const VocabularyRows rows = CheckRows("logits", logits, true);
  CheckTensor("probs", probs).On(logits.device()).Is(DType::kF32).Shape(logits.shape());
  CheckTensor("probs", probs).LastDimDense().NoOverlap();
  const SoftmaxParams params{
      .logits = rows,
      .probs = probs.data_as<float>(),
      .probs_stride = probs.stride(0),
      .temperature = Check("temperature", temperature, logits, kTemperatures)};
  Choose<SoftmaxOp>({logits.dtype(), logits.shape(1)}, backend)(params);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("softmax", {{"probs", probs}});
}

void SampleFromLogits(const TensorView& logits, const TensorView& tokens,
                      const SamplingOptions& options, const TensorView& valid, Stream) {
  Sample("sample_from_logits", "logits", logits, true, tokens, options, valid);
}

void SampleFromProbs(const TensorView& probs, const TensorView& tokens,
                     const SamplingOptions& options, const TensorView& valid, Stream) {
  Sample("sample_from_probs", "probs", probs, false, tokens, options, valid);
}

void ArgMax(const TensorView& logits, const TensorView& tokens, const TensorView& valid,
            Backend backend, Stream) {
  if (LogLevel() > 0) [[unlikely]]
    LogCall("argmax", {{"logits", logits}, {"tokens", tokens}, {"valid", valid}});
  const VocabularyRows rows = CheckRows("logits", logits, true);
  const ArgMaxParams params{rows, CheckOutputs(logits, tokens, valid)};
  Choose<ArgMaxOp>({logits.dtype(), logits.shape(1)}, backend)(params);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("argmax", {{"tokens", tokens}, {"valid", valid}});
}

}  // namespace flashinfer
