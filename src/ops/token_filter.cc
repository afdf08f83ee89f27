// SPDX-License-Identifier: Apache-2.0
// Top-k and top-p over probabilities, top-k over logits: check, choose, run.
#include "ops/token_filter.h"

#include "core/check.h"
#include "core/log.h"
#include "cuda/device.h"
#include "dispatch/choose.h"
#include "ops/per_row.h"

namespace flashinfer {
namespace {

const PerRow<int32_t> kAllTokens = 0;
const PerRow<float> kAllMass = 1.0f;

struct Arguments {
  std::string_view function;
  std::string_view rows_name;
  const TensorView& rows;
  const TensorView& out;
  const PerRow<int32_t>& top_k = kAllTokens;
  const PerRow<float>& top_p = kAllMass;
};

void Filter(const Arguments& a, Backend backend, Stream stream) {
  const TensorView& rows = a.rows;
  const Device device = rows.device();
  if (LogLevel() > 0) [[unlikely]] {
    LogCall(a.function, {{a.rows_name, rows},
                         {"out", a.out},
                         PerRowArgument("top_k", a.top_k),
                         PerRowArgument("top_p", a.top_p)});
  }
  const VocabularyRows checked = CheckRows(a.rows_name, rows, a.rows_name == "logits");
  CheckTensor("out", a.out)
      .On(device)
      .Is(rows.dtype())
      .Shape(rows.shape())
      .LastDimDense()
      .NoOverlap()
      .ApartOrSame(a.rows_name, rows);
  const TokenFilterParams params{
      .rows = checked,
      .out = a.out.data(),
      .out_stride = a.out.stride(0),
      .top_k = CheckPerRow("top_k", a.top_k, rows.shape(0), kCounts, device),
      .top_p = CheckPerRow("top_p", a.top_p, rows.shape(0), kFractions, device),
      .stream = cuda::StreamOn(device, stream)};
  Choose<TokenFilterOp>({rows.dtype(), rows.shape(1), cuda::ArchOf(device)}, backend)(params);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn(a.function, {{"out", a.out}});
}

}  // namespace

void TopKRenormProbs(const TensorView& probs, const TensorView& out, PerRow<int32_t> top_k,
                     Backend backend, Stream stream) {
  Filter({.function = "top_k_renorm_probs",
          .rows_name = "probs",
          .rows = probs,
          .out = out,
          .top_k = top_k},
         backend, stream);
}

void TopPRenormProbs(const TensorView& probs, const TensorView& out, PerRow<float> top_p,
                     Backend backend, Stream stream) {
  Filter({.function = "top_p_renorm_probs",
          .rows_name = "probs",
          .rows = probs,
          .out = out,
          .top_p = top_p},
         backend, stream);
}

void TopKMaskLogits(const TensorView& logits, const TensorView& out, PerRow<int32_t> top_k,
                    Backend backend, Stream stream) {
  Filter({.function = "top_k_mask_logits",
          .rows_name = "logits",
          .rows = logits,
          .out = out,
          .top_k = top_k},
         backend, stream);
}

}  // namespace flashinfer
