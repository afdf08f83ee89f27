// SPDX-License-Identifier: Apache-2.0
// The list of kernel families.
#include "backends/cuda/kernel_families.h"

#include <array>

#include "backends/cuda/attention_variant.h"
#include "core/check.h"
#include "core/text.h"
#include "kernels/activation/activation_spec.h"
#include "kernels/attention/decode_mma_spec.h"
#include "kernels/attention/decode_plan_spec.h"
#include "kernels/attention/decode_spec.h"
#include "kernels/attention/merge_states_spec.h"
#include "kernels/attention/mla_simt_spec.h"
#include "kernels/attention/mla_spec.h"
#include "kernels/attention/prefill_plan_spec.h"
#include "kernels/attention/prefill_simt_spec.h"
#include "kernels/attention/prefill_spec.h"
#include "kernels/linear/gather_rows_spec.h"
#include "kernels/linear/linear_spec.h"
#include "kernels/norm/norm_spec.h"
#include "kernels/page/page_copy_spec.h"
#include "kernels/page/page_positions_spec.h"
#include "kernels/quantize/packbits_spec.h"
#include "kernels/quantize/quantize_blocks_spec.h"
#include "kernels/quantize/quantize_spec.h"
#include "kernels/quantize/swizzle_scales_spec.h"
#include "kernels/rope/rope_spec.h"
#include "kernels/sampling/argmax_spec.h"
#include "kernels/sampling/chain_speculative_spec.h"
#include "kernels/sampling/sampling_spec.h"
#include "kernels/sampling/softmax_spec.h"
#include "kernels/sampling/token_filter_spec.h"
#include "kernels/sampling/topk_spec.h"
#include "ops/linear.h"

namespace flashinfer::cuda {
namespace {

template <class Spec>
jit::Unit RenderFields(const std::vector<std::string_view>& fields) {
  return jit::Render(ParseFields<Spec>(fields));
}

template <class Spec>
jit::Unit RenderVariant(const std::vector<std::string_view>& fields,
                        const AttentionVariant& variant) {
  return Render(VariantSpec<Spec>{ParseFields<Spec>(fields), variant});
}

template <class Spec>
KernelFamily Family() {
  KernelFamily family{.name = Spec::kName,
                      .header = Spec::kHeader,
                      .min_arch = Spec::kMinArch,
                      .default_spec = FieldsText(Spec::kName, Spec{}),
                      .render = RenderFields<Spec>};
  if constexpr (requires { TakesVariants(Spec{}); }) family.render_variant = RenderVariant<Spec>;
  return family;
}

constexpr std::string_view kVariantField = "variant=";

/// Takes `variant=…` out of the words of a spec, and checks that `variant` is that one.
void TakeVariant(std::vector<std::string_view>& words, const AttentionVariant* variant) {
  for (auto word = words.begin(); word != words.end(); ++word) {
    if (!word->starts_with(kVariantField)) continue;
    const std::string_view name = word->substr(kVariantField.size());
    FLASHINFER_CHECK(variant != nullptr,
                     "variant: '{}' is known by its hash alone; its code must be given too "
                     "(flashinfer compile SPEC --variant FILE)",
                     name);
    FLASHINFER_CHECK(variant->name() == name,
                     "variant: the spec names '{}', the code given is '{}'", name, variant->name());
    words.erase(word);
    return;
  }
}

jit::Unit RenderWith(const KernelFamily& family, std::vector<std::string_view> fields,
                     const AttentionVariant* variant) {
  TakeVariant(fields, variant);
  if (variant == nullptr) return family.render(fields);
  if (family.render_variant != nullptr) return family.render_variant(fields, *variant);
  std::vector<std::string> names;
  for (const KernelFamily& other : KernelFamilies()) {
    if (other.render_variant != nullptr) names.emplace_back(other.name);
  }
  throw Error(
      ErrorKind::kInvalidArgument,
      fmt::format("variant: {} takes none; families that do: {}", family.name, Join(names)));
}

}  // namespace

std::span<const KernelFamily> KernelFamilies() {
  static const auto& families = *new std::array{
      Family<kernels::ActivationSpec>(),
      Family<kernels::ArgMaxSpec>(),
      Family<kernels::ChainSpeculativeSpec>(),
      Family<kernels::DecodeMmaSpec>(),
      Family<kernels::DecodePlanSpec>(),
      Family<kernels::DecodeSpec>(),
      Family<kernels::GatherRowsSpec>(),
      Family<kernels::LinearMmaSpec>(),
      Family<kernels::LinearSimtSpec>(),
      Family<kernels::MergeStatesSpec>(),
      Family<kernels::MlaSimtSpec>(),
      Family<kernels::MlaSpec>(),
      Family<kernels::NormSpec>(),
      Family<kernels::PackBitsSpec>(),
      Family<kernels::PageCopySpec>(),
      Family<kernels::PagePositionsSpec>(),
      Family<kernels::PrefillPlanSpec>(),
      Family<kernels::PrefillSimtSpec>(),
      Family<kernels::PrefillSpec>(),
      Family<kernels::QuantizeBlocksSpec>(),
      Family<kernels::QuantizeSpec>(),
      Family<kernels::RopeSpec>(),
      Family<kernels::SamplingSpec>(),
      Family<kernels::SoftmaxSpec>(),
      Family<kernels::SwizzleScalesSpec>(),
      Family<kernels::TokenFilterSpec>(),
      Family<kernels::TopKSpec>(),
  };
  return families;
}

jit::Unit RenderText(std::string_view spec, const AttentionVariant* variant) {
  std::vector<std::string_view> words = SplitWords(spec);
  std::vector<std::string> names;
  for (const KernelFamily& family : KernelFamilies()) {
    if (!words.empty() && family.name == words.front()) {
      words.erase(words.begin());
      return RenderWith(family, words, variant);
    }
    names.emplace_back(family.name);
  }
  throw Error(
      ErrorKind::kInvalidArgument,
      fmt::format("'{}' does not begin with a kernel family; families: {}", spec, Join(names)));
}

}  // namespace flashinfer::cuda
