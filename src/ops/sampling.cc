// SPDX-License-Identifier: Apache-2.0
// Softmax, sampling and argmax: check, choose, run.
#include "ops/sampling.h"

#include "core/check.h"
#include "core/log.h"
#include "dispatch/choose.h"
#include "ops/per_row.h"

namespace flashinfer {
namespace {

TokenOutputs CheckOutputs(int64_t num_rows, const TensorView& tokens, const TensorView& valid) {
  CheckTensor("tokens", tokens).On({}).Is(DType::kI32).Shape({num_rows}).NoOverlap();
  TokenOutputs out{tokens.data_as<int32_t>(), tokens.stride(0), nullptr, 0};
  if (valid.defined()) {
    CheckTensor("valid", valid).On({}).Is(DType::kBool).Shape({num_rows}).NoOverlap();
    out.valid = valid.data_as<bool>();
    out.valid_stride = valid.stride(0);
  }
  return out;
}

/// `rows` is logits or probs, as `name` says.
void LogSampling(std::string_view op, std::string_view name, const TensorView& rows,
                 const TensorView& tokens, const TensorView& valid, const SamplingOptions& o) {
  LogCall(op, {{name, rows},
               {"indices", o.indices},
               {"tokens", tokens},
               {"valid", valid},
               PerRowArgument("temperature", o.temperature),
               PerRowArgument("top_k", o.top_k),
               PerRowArgument("top_p", o.top_p),
               PerRowArgument("min_p", o.min_p),
               {"filter_order", o.filter_order == FilterOrder::kJoint ? "joint" : "top_k_first"},
               PerRowArgument("seed", o.seed),
               PerRowArgument("offset", o.offset)});
}

void Sample(std::string_view op, std::string_view name, const TensorView& rows, bool are_logits,
            const TensorView& tokens, const SamplingOptions& options, const TensorView& valid) {
  if (LogLevel() > 0) [[unlikely]]
    LogSampling(op, name, rows, tokens, valid, options);
  const VocabularyRows checked = CheckRows(name, rows, are_logits);
  const RowIndices indices = CheckIndices("indices", options.indices, rows.shape(0));
  const int64_t n = options.indices.defined() ? options.indices.shape(0) : rows.shape(0);
  const SamplingParams params{
      .rows = checked,
      .indices = indices,
      .num_outputs = n,
      .out = CheckOutputs(n, tokens, valid),
      .temperature = CheckPerRow("temperature", options.temperature, n, kTemperatures),
      .top_k = CheckPerRow("top_k", options.top_k, n, kCounts),
      .top_p = CheckPerRow("top_p", options.top_p, n, kFractions),
      .min_p = CheckPerRow("min_p", options.min_p, n, kFractions),
      .seed = CheckPerRow("seed", options.seed, n, kAnyNumber),
      .offset = CheckPerRow("offset", options.offset, n, kAnyNumber),
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
            {{"logits", logits}, {"probs", probs}, PerRowArgument("temperature", temperature)});
  }
  const VocabularyRows rows = CheckRows("logits", logits, true);
  CheckTensor("probs", probs).On(logits.device()).Is(DType::kF32).Shape(logits.shape());
  CheckTensor("probs", probs).LastDimDense().NoOverlap();
  const SoftmaxParams params{
      .logits = rows,
      .probs = probs.data_as<float>(),
      .probs_stride = probs.stride(0),
      .temperature = CheckPerRow("temperature", temperature, logits.shape(0), kTemperatures)};
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
  const ArgMaxParams params{rows, CheckOutputs(logits.shape(0), tokens, valid)};
  Choose<ArgMaxOp>({logits.dtype(), logits.shape(1)}, backend)(params);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("argmax", {{"tokens", tokens}, {"valid", valid}});
}

}  // namespace flashinfer
