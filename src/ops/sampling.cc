// SPDX-License-Identifier: Apache-2.0
// Softmax, sampling and argmax: check, choose, run.
#include "ops/sampling.h"

#include "core/check.h"
#include "core/log.h"
#include "cuda/device.h"
#include "dispatch/choose.h"
#include "ops/per_row.h"

namespace flashinfer {
namespace {

/// Of `num_rows` outputs of rows on `device`.
TokenOutputs CheckOutputs(int64_t num_rows, Device device, const TensorView& tokens,
                          const TensorView& valid) {
  CheckTensor("tokens", tokens).On(device).Is(DType::kI32).Shape({num_rows}).NoOverlap();
  TokenOutputs out{tokens.data_as<int32_t>(), tokens.stride(0), nullptr, 0};
  if (valid.defined()) {
    CheckTensor("valid", valid).On(device).Is(DType::kBool).Shape({num_rows}).NoOverlap();
    out.valid = valid.data_as<bool>();
    out.valid_stride = valid.stride(0);
  }
  return out;
}

struct SamplingCall {
  std::string_view op;
  std::string_view rows_name;
  const TensorView& rows;  ///< logits or probs, as its name says
  const TensorView& tokens;
  const TensorView& valid;
};

void LogSampling(const SamplingCall& c, const SamplingOptions& o) {
  LogCall(c.op, {{c.rows_name, c.rows},
                 {"indices", o.indices},
                 {"tokens", c.tokens},
                 {"valid", c.valid},
                 PerRowArgument("temperature", o.temperature),
                 PerRowArgument("top_k", o.top_k),
                 PerRowArgument("top_p", o.top_p),
                 PerRowArgument("min_p", o.min_p),
                 {"filter_order", o.filter_order == FilterOrder::kJoint ? "joint" : "top_k_first"},
                 PerRowArgument("seed", o.seed),
                 PerRowArgument("offset", o.offset)});
}

void Sample(const SamplingCall& c, const SamplingOptions& options, Stream stream) {
  if (LogLevel() > 0) [[unlikely]]
    LogSampling(c, options);
  const TensorView& rows = c.rows;
  const Device device = rows.device();
  const bool are_logits = c.rows_name == "logits";
  const VocabularyRows checked = CheckRows(c.rows_name, rows, are_logits);
  CheckTensor("tokens", c.tokens).Apart(c.rows_name, rows);
  const RowIndices indices = CheckIndices("indices", options.indices, rows);
  const int64_t n = options.indices.defined() ? options.indices.shape(0) : rows.shape(0);
  const SamplingParams params{
      .rows = checked,
      .indices = indices,
      .num_outputs = n,
      .out = CheckOutputs(n, device, c.tokens, c.valid),
      .temperature = CheckPerRow("temperature", options.temperature, n, kTemperatures, device),
      .top_k = CheckPerRow("top_k", options.top_k, n, kCounts, device),
      .top_p = CheckPerRow("top_p", options.top_p, n, kFractions, device),
      .min_p = CheckPerRow("min_p", options.min_p, n, kFractions, device),
      .seed = CheckPerRow("seed", options.seed, n, kAnyNumber, device),
      .offset = CheckPerRow("offset", options.offset, n, kAnyNumber, device),
      .filter_order = options.filter_order,
      .stream = cuda::StreamOn(device, stream)};
  FLASHINFER_CHECK(are_logits || (params.temperature.data == nullptr && params.temperature[0] == 1),
                   "temperature: is given, expected 1: it divides logits, not probabilities");
  Choose<SamplingOp>({rows.dtype(), rows.shape(1), cuda::ArchOf(device)}, options.backend)(params);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn(c.op, {{"tokens", c.tokens}, {"valid", c.valid}});
}

}  // namespace

void Softmax(const TensorView& logits, const TensorView& probs, PerRow<float> temperature,
             Backend backend, Stream stream) {
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("softmax",
            {{"logits", logits}, {"probs", probs}, PerRowArgument("temperature", temperature)});
  }
  const VocabularyRows rows = CheckRows("logits", logits, true);
  CheckTensor("probs", probs).On(logits.device()).Is(DType::kF32).Shape(logits.shape());
  CheckTensor("probs", probs).LastDimDense().NoOverlap().ApartOrSame("logits", logits);
  const SoftmaxParams params{.logits = rows,
                             .probs = probs.data_as<float>(),
                             .probs_stride = probs.stride(0),
                             .temperature = CheckPerRow("temperature", temperature, logits.shape(0),
                                                        kTemperatures, logits.device()),
                             .stream = cuda::StreamOn(logits.device(), stream)};
  Choose<SoftmaxOp>({logits.dtype(), logits.shape(1), cuda::ArchOf(logits.device())},
                    backend)(params);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("softmax", {{"probs", probs}});
}

void SampleFromLogits(const TensorView& logits, const TensorView& tokens,
                      const SamplingOptions& options, const TensorView& valid, Stream stream) {
  Sample({"sample_from_logits", "logits", logits, tokens, valid}, options, stream);
}

void SampleFromProbs(const TensorView& probs, const TensorView& tokens,
                     const SamplingOptions& options, const TensorView& valid, Stream stream) {
  Sample({"sample_from_probs", "probs", probs, tokens, valid}, options, stream);
}

void ArgMax(const TensorView& logits, const TensorView& tokens, const TensorView& valid,
            Backend backend, Stream stream) {
  if (LogLevel() > 0) [[unlikely]]
    LogCall("argmax", {{"logits", logits}, {"tokens", tokens}, {"valid", valid}});
  const VocabularyRows rows = CheckRows("logits", logits, true);
  const Device device = logits.device();
  const ArgMaxParams params{rows, CheckOutputs(logits.shape(0), device, tokens, valid),
                            cuda::StreamOn(device, stream)};
  Choose<ArgMaxOp>({logits.dtype(), logits.shape(1), cuda::ArchOf(device)}, backend)(params);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("argmax", {{"tokens", tokens}, {"valid", valid}});
}

}  // namespace flashinfer
