// SPDX-License-Identifier: Apache-2.0
// Chain speculative sampling: check, choose, run.
#include "ops/chain_speculative.h"

#include "core/check.h"
#include "core/log.h"
#include "cuda/device.h"
#include "dispatch/choose.h"
#include "ops/per_row.h"

namespace flashinfer {
namespace {

RowCounts CheckCounts(std::string_view name, const TensorView& counts, int64_t num_rows,
                      Device device) {
  if (!counts.defined()) return {};
  CheckTensor(name, counts).On(device).Is(DType::kI32).Shape({num_rows}).NoOverlap();
  return {counts.data_as<int32_t>(), counts.stride(0)};
}

void CheckDraftTokens(const TensorView& tokens, const Dims& shape, int64_t vocab_size,
                      Device device) {
  CheckTensor("draft_tokens", tokens).On(device).Is(DType::kI32).Shape(shape);
  if (device.type != DeviceType::kCpu) return;
  for (int64_t row = 0; row < shape[0]; ++row) {
    for (int64_t i = 0; i < shape[1]; ++i) {
      const int32_t token =
          tokens.data_as<const int32_t>()[row * tokens.stride(0) + i * tokens.stride(1)];
      FLASHINFER_CHECK(token >= 0 && token < vocab_size,
                       "draft_tokens[{}, {}]: is {}, accepted: 0 to {}", row, i, token,
                       vocab_size - 1);
    }
  }
}

void Log(const TensorView& draft_probs, const TensorView& draft_tokens,
         const TensorView& target_probs, const ChainSpeculativeOutputs& out,
         const ChainSpeculativeOptions& options) {
  LogCall("chain_speculative_sampling", {{"draft_probs", draft_probs},
                                         {"draft_tokens", draft_tokens},
                                         {"target_probs", target_probs},
                                         {"tokens", out.tokens},
                                         {"num_accepted", out.num_accepted},
                                         {"num_emitted", out.num_emitted},
                                         PerRowArgument("seed", options.seed),
                                         PerRowArgument("offset", options.offset)});
}

}  // namespace

void ChainSpeculativeSampling(const TensorView& draft_probs, const TensorView& draft_tokens,
                              const TensorView& target_probs, const ChainSpeculativeOutputs& out,
                              const ChainSpeculativeOptions& options, Stream stream) {
  if (LogLevel() > 0) [[unlikely]]
    Log(draft_probs, draft_tokens, target_probs, out, options);
  const Device device = draft_probs.device();
  CheckTensor("draft_probs", draft_probs).Is(DType::kF32).Rank(3).LastDimDense();
  const int64_t num_rows = draft_probs.shape(0);
  const int64_t num_drafts = draft_probs.shape(1);
  const int64_t vocab_size = draft_probs.shape(2);
  FLASHINFER_CHECK(vocab_size > 0 && vocab_size <= std::numeric_limits<int32_t>::max(),
                   "draft_probs: vocab_size is {}, accepted: 1 to 2147483647", vocab_size);
  CheckTensor("target_probs", target_probs).On(device).Is(DType::kF32);
  CheckTensor("target_probs", target_probs).Shape({num_rows, num_drafts + 1, vocab_size});
  CheckTensor("target_probs", target_probs).LastDimDense();
  CheckDraftTokens(draft_tokens, {num_rows, num_drafts}, vocab_size, device);
  CheckTensor("tokens", out.tokens).On(device).Is(DType::kI32).Shape({num_rows, num_drafts + 1});
  CheckTensor("tokens", out.tokens)
      .NoOverlap()
      .Apart("draft_tokens", draft_tokens)
      .Apart("draft_probs", draft_probs)
      .Apart("target_probs", target_probs);
  const ChainSpeculativeParams params{
      .draft = {draft_probs.data_as<const float>(), draft_probs.stride(0), draft_probs.stride(1)},
      .target = {target_probs.data_as<const float>(), target_probs.stride(0),
                 target_probs.stride(1)},
      .draft_tokens = draft_tokens.data_as<const int32_t>(),
      .draft_tokens_row_stride = draft_tokens.stride(0),
      .draft_tokens_stride = draft_tokens.stride(1),
      .tokens = out.tokens.data_as<int32_t>(),
      .tokens_row_stride = out.tokens.stride(0),
      .tokens_stride = out.tokens.stride(1),
      .num_accepted = CheckCounts("num_accepted", out.num_accepted, num_rows, device),
      .num_emitted = CheckCounts("num_emitted", out.num_emitted, num_rows, device),
      .seed = CheckPerRow("seed", options.seed, num_rows, kAnyNumber, device),
      .offset = CheckPerRow("offset", options.offset, num_rows, kAnyNumber, device),
      .num_rows = num_rows,
      .num_drafts = num_drafts,
      .vocab_size = vocab_size,
      .stream = cuda::StreamOn(device, stream)};
  Choose<ChainSpeculativeOp>({DType::kF32, vocab_size, cuda::ArchOf(device)},
                             options.backend)(params);
  if (LogLevel() >= 5) [[unlikely]] {
    LogReturn("chain_speculative_sampling", {{"tokens", out.tokens},
                                             {"num_accepted", out.num_accepted},
                                             {"num_emitted", out.num_emitted}});
  }
}

}  // namespace flashinfer
