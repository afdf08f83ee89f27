// SPDX-License-Identifier: Apache-2.0
// Kernels of attention with a user's code: their units, and the parameters of a launch.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "jit/source.h"
#include "jit/store.h"
#include "kernels/attention/variant_position.h"
#include "ops/attention.h"

namespace flashinfer::cuda {

/// A spec, and the code that is compiled with it.
template <class Spec>
struct VariantSpec {
  Spec spec;
  AttentionVariant variant;
  friend bool operator==(const VariantSpec& a, const VariantSpec& b) {
    return a.spec == b.spec && a.variant.name() == b.variant.name();
  }
};

/// The code as a unit holds it: its parameters as a struct, and its text.
jit::UserCode UserCodeOf(const AttentionVariant& variant, std::string_view spec_type);

template <class Spec>
jit::Unit Render(const VariantSpec<Spec>& spec) {
  const jit::UserCode user = UserCodeOf(spec.variant, Spec::kType);
  return jit::Render(spec.spec, &user);
}

/// The kernel of a spec; null: without a variant.
template <class Spec>
const Kernel& VariantKernel(const Spec& spec, const AttentionVariant* variant, Device device) {
  if (variant == nullptr) return jit::GetKernel(spec, device);
  return jit::GetKernel(VariantSpec<Spec>{spec, *variant}, device);
}

kernels::VariantCall VariantCallOf(const AttentionProblem& problem, const int32_t* lengths,
                                   int64_t num_requests);
std::array<uint64_t, kMaxVariantParameters> PackVariantValues(const AttentionVariant& variant,
                                                              std::span<const VariantValue> values);

/// What a kernel with a variant takes. A launch reads as much of it as the variant has parameters.
template <class Params>
struct VariantLaunchParams {
  static_assert(std::is_standard_layout_v<Params> && sizeof(Params) % 8 == 0);
  Params params;
  kernels::VariantCall call;
  std::array<uint64_t, kMaxVariantParameters> values;
};

/// What a batch's VariantCall points to: q_indptr, then kv_lens.
std::vector<int32_t> VariantLengths(const AttentionTables& tables);

/// Parameters of a launch from those that it would have without a variant. `lengths` are the
/// VariantLengths() on the device. Values have been checked.
template <class Params>
VariantLaunchParams<Params> WithVariant(const Params& params, const AttentionProblem& problem,
                                        const int32_t* lengths, int64_t num_requests,
                                        std::span<const VariantValue> values) {
  return {params, VariantCallOf(problem, lengths, num_requests),
          PackVariantValues(*problem.variant, values)};
}

/// The factor of dot products, apart from scales of quantised inputs: code for macros scales them
/// itself.
float LogitScale(const AttentionProblem& problem);

/// Whether a kernel that takes variants takes the problem's, if it has one.
bool AcceptsVariant(const AttentionProblem& problem, std::string* why);

}  // namespace flashinfer::cuda
