// SPDX-License-Identifier: Apache-2.0
// A user's struct of functions: which of them it has, and what stands in for those that it lacks.
#pragma once

#include "kernels/attention/variant.cuh"
#include "kernels/tile/element.cuh"
#include "kernels/tile/softmax.cuh"

namespace flashinfer::kernels {

/// A tensor parameter of an element type that C++ does not have, widened as it is read.
template <DType kDType>
struct VariantTensor {
  const void* data;
  float operator[](int64_t index) const { return tile::LoadElement<kDType>(data, index); }
};

namespace variant_detail {

// A name that User has too is ambiguous in a Probe, whatever it is: so a function is found by its
// name alone, and one with the wrong arguments is an error, not an absent one.
struct Names {
  void Query();
  void Key();
  void Logit();
  void Sees();
  void Output();
  void kUsesSoftmax();
};
template <class User>
struct Probe : User, Names {};

template <class User>
inline constexpr bool kHasQuery = !requires {
  &Probe<User>::Query;
};
template <class User>
inline constexpr bool kHasKey = !requires {
  &Probe<User>::Key;
};
template <class User>
inline constexpr bool kHasLogit = !requires {
  &Probe<User>::Logit;
};
template <class User>
inline constexpr bool kHasSees = !requires {
  &Probe<User>::Sees;
};
template <class User>
inline constexpr bool kHasOutput = !requires {
  &Probe<User>::Output;
};

template <class User>
constexpr bool UsesSoftmax() {
  if constexpr (requires { &Probe<User>::kUsesSoftmax; }) {
    return true;
  } else {
    return User::kUsesSoftmax;
  }
}

}  // namespace variant_detail

/// A user's struct of static functions, each of which may be absent; docs/variants.md describes
/// them. `Values` is a VariantCall with its parameters.
template <class User, class Values>
struct UserVariant {
  static constexpr bool IsOn() { return true; }
  static constexpr bool UsesSoftmax() { return variant_detail::UsesSoftmax<User>(); }
  static constexpr bool TransformsQuery() { return variant_detail::kHasQuery<User>; }
  static constexpr bool TransformsKey() { return variant_detail::kHasKey<User>; }
  static_assert(variant_detail::kHasQuery<User> || variant_detail::kHasKey<User> ||
                    variant_detail::kHasLogit<User> || variant_detail::kHasSees<User> ||
                    variant_detail::kHasOutput<User>,
                "the variant has none of the functions Query, Key, Logit, Sees, Output");
  static_assert(variant_detail::UsesSoftmax<User>() || variant_detail::kHasLogit<User>,
                "a variant without softmax must have Logit, which gives the weights");
  template <class Base>
  using Params = VariantKernelParams<Base, Values>;

  static __device__ __forceinline__ float Query(const Values& p, float x, const QueryPosition& at) {
    if constexpr (TransformsQuery()) {
      static_assert(
          requires { float{User::Query(p, x, at)}; },
          "Query must be: static float Query(const VariantParams&, float, "
          "const QueryPosition&)");
      return User::Query(p, x, at);
    }
    return x;
  }

  static __device__ __forceinline__ float Key(const Values& p, float x, const KeyPosition& at) {
    if constexpr (TransformsKey()) {
      static_assert(
          requires { float{User::Key(p, x, at)}; },
          "Key must be: static float Key(const VariantParams&, float, "
          "const KeyPosition&)");
      return User::Key(p, x, at);
    }
    return x;
  }

  /// From a natural logit to one of base 2; without softmax, to a weight.
  static __device__ __forceinline__ float Logit(const Values& p, float logit,
                                                const LogitPosition& at) {
    if constexpr (variant_detail::kHasLogit<User>) {
      static_assert(
          requires { float{User::Logit(p, logit, at)}; },
          "Logit must be: static float Logit(const VariantParams&, float, "
          "const LogitPosition&)");
      logit = User::Logit(p, logit, at);
    }
    return UsesSoftmax() ? logit * tile::kLog2E : logit;
  }

  static __device__ __forceinline__ bool Sees(const Values& p, const LogitPosition& at) {
    if constexpr (variant_detail::kHasSees<User>) {
      static_assert(
          requires { bool{User::Sees(p, at)}; },
          "Sees must be: static bool Sees(const VariantParams&, const LogitPosition&)");
      return User::Sees(p, at);
    }
    return true;
  }

  /// When all keys have been seen: may change a row's maximum and sum; what its weighted sum of
  /// values is multiplied with for that.
  static __device__ __forceinline__ float Finish(const Values&, const RowPosition&, float&,
                                                 float&) {
    return 1;
  }

  /// From a weighted sum of values to an output. `scale` is what Finish() gave.
  static __device__ __forceinline__ float Output(const Values& p, float x, const RowPosition& row,
                                                 int32_t column, float max, float sum, float) {
    if constexpr (UsesSoftmax()) x = sum > 0 ? __fdividef(x, sum) : 0.0f;
    if constexpr (variant_detail::kHasOutput<User>) {
      OutputPosition at{row, column, UsesSoftmax() ? tile::LogSumExp2(max, sum) : 0.0f};
      static_assert(
          requires { float{User::Output(p, x, at)}; },
          "Output must be: static float Output(const VariantParams&, float, "
          "const OutputPosition&)");
      return User::Output(p, x, at);
    }
    return x;
  }
};

}  // namespace flashinfer::kernels
