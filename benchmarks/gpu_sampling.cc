// SPDX-License-Identifier: Apache-2.0
// Softmax, sampling, filters and top-k selection on a CUDA device.
#include "gpu_sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "flashinfer/sampling.h"
#include "flashinfer/topk.h"
#include "gpu_tensor.h"

namespace flashinfer::bench {
namespace {

constexpr int64_t kVocabSize = 128256;

std::vector<float> NormalValues(float scale) {
  std::mt19937 rng(3);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(size_t{1} << 20);
  for (float& x : values) x = normal(rng);
  return values;
}

}  // namespace

void MeasureSampling(const WantsFunction& wants, const MeasureFunction& measure, Device device,
                     int64_t num_rows) {
  constexpr std::array<const char*, 8> kOps{"softmax",
                                            "argmax",
                                            "sampling_from_probs",
                                            "sampling_from_logits",
                                            "top_p_renorm_probs",
                                            "top_k_renorm_probs",
                                            "top_k_mask_logits",
                                            "top_k"};
  if (std::none_of(kOps.begin(), kOps.end(), wants)) return;
  const std::string text = fmt::format("B{} V{}", num_rows, kVocabSize);
  const GpuTensor logits(NormalValues(3), {num_rows, kVocabSize}, device);
  const GpuTensor probs(std::vector<float>(1), {num_rows, kVocabSize}, device);
  const GpuTensor out(std::vector<float>(1), {num_rows, kVocabSize}, device);
  const GpuTensor tokens(std::vector<int32_t>(static_cast<size_t>(num_rows)), device);
  constexpr int64_t kTopK = 50;
  const GpuTensor values(std::vector<float>(1), {num_rows, kTopK}, device);
  const GpuTensor places(std::vector<int32_t>(static_cast<size_t>(num_rows * kTopK)), device);
  const TensorView& flat = places;
  const TensorView indices(flat.data(), DType::kI32, {num_rows, kTopK}, device);
  const double bytes = 4.0 * static_cast<double>(num_rows * kVocabSize);
  Softmax(logits, probs, 1.0f, {}, {device});
  measure("softmax", text, 2 * bytes, [&](Stream s) { Softmax(logits, out, 0.7f, {}, s); });
  measure("argmax", text, bytes, [&](Stream s) { ArgMax(logits, tokens, {}, {}, s); });
  const auto sample = [&](const std::string& filters, const SamplingOptions& options) {
    measure("sampling_from_probs", text + filters, bytes,
            [&](Stream s) { SampleFromProbs(probs, tokens, options, {}, s); });
  };
  sample("", {});
  sample(" top_p 0.9", {.top_p = 0.9f});
  sample(" top_k 50", {.top_k = 50});
  sample(" min_p 0.1", {.min_p = 0.1f});
  sample(" top_k 50 top_p 0.9", {.top_k = 50, .top_p = 0.9f});
  measure("sampling_from_logits", text + " top_k 50 top_p 0.9", bytes, [&](Stream s) {
    SampleFromLogits(logits, tokens, {.temperature = 0.7f, .top_k = 50, .top_p = 0.9f}, {}, s);
  });
  measure("top_p_renorm_probs", text + " top_p 0.9", 2 * bytes,
          [&](Stream s) { TopPRenormProbs(probs, out, 0.9f, {}, s); });
  measure("top_k_renorm_probs", text + " top_k 50", 2 * bytes,
          [&](Stream s) { TopKRenormProbs(probs, out, 50, {}, s); });
  measure("top_k_mask_logits", text + " top_k 50", 2 * bytes,
          [&](Stream s) { TopKMaskLogits(logits, out, 50, {}, s); });
  measure("top_k", text + " k 50 sorted", bytes,
          [&](Stream s) { TopK(logits, values, indices, {.sorted = true}, s); });
}

}  // namespace flashinfer::bench
