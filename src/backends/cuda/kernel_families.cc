// SPDX-License-Identifier: Apache-2.0
// The list of kernel families.
#include "backends/cuda/kernel_families.h"

#include <array>

#include "core/check.h"
#include "core/text.h"
#include "kernels/activation/activation_spec.h"
#include "kernels/attention/decode_mma_spec.h"
#include "kernels/attention/decode_plan_spec.h"
#include "kernels/attention/decode_spec.h"
#include "kernels/attention/merge_states_spec.h"
#include "kernels/attention/prefill_spec.h"
#include "kernels/linear/gather_rows_spec.h"
#include "kernels/linear/linear_spec.h"
#include "kernels/norm/norm_spec.h"
#include "kernels/page/page_copy_spec.h"
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
KernelFamily Family() {
  return {.name = Spec::kName,
          .header = Spec::kHeader,
          .min_arch = Spec::kMinArch,
          .default_spec = FieldsText(Spec::kName, Spec{}),
          .render = RenderFields<Spec>};
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
      Family<kernels::NormSpec>(),
      Family<kernels::PageCopySpec>(),
      Family<kernels::PrefillSpec>(),
      Family<kernels::RopeSpec>(),
      Family<kernels::SamplingSpec>(),
      Family<kernels::SoftmaxSpec>(),
      Family<kernels::TokenFilterSpec>(),
      Family<kernels::TopKSpec>(),
  };
  return families;
}

jit::Unit RenderText(std::string_view spec) {
  std::vector<std::string_view> words = SplitWords(spec);
  std::vector<std::string> names;
  for (const KernelFamily& family : KernelFamilies()) {
    if (!words.empty() && family.name == words.front()) {
      words.erase(words.begin());
      return family.render(words);
    }
    names.emplace_back(family.name);
  }
  throw Error(
      ErrorKind::kInvalidArgument,
      fmt::format("'{}' does not begin with a kernel family; families: {}", spec, Join(names)));
}

}  // namespace flashinfer::cuda
