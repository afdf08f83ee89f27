// SPDX-License-Identifier: Apache-2.0
// Merging attention states: check, choose, run.
#include "ops/merge_state.h"

#include "core/check.h"
#include "core/log.h"
#include "cuda/device.h"
#include "dispatch/choose.h"

namespace flashinfer {
namespace {

StateRows CheckState(std::string_view v_name, const TensorView& v, std::string_view s_name,
                     const TensorView& s, const TensorView& first) {
  CheckTensor(v_name, v).On(first.device()).Is(first.dtype()).Shape(first.shape()).LastDimDense();
  CheckTensor(s_name, s).On(first.device()).Is(DType::kF32).Shape({first.shape(0), first.shape(1)});
  return {v.data(), s.data_as<float>(), v.stride(0), v.stride(1), s.stride(0), s.stride(1)};
}

}  // namespace

void MergeState(const TensorView& v_a, const TensorView& s_a, const TensorView& v_b,
                const TensorView& s_b, const TensorView& v_merged, const TensorView& s_merged,
                Backend backend, Stream stream) {
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("merge_state", {{"v_a", v_a},
                            {"s_a", s_a},
                            {"v_b", v_b},
                            {"s_b", s_b},
                            {"v_merged", v_merged},
                            {"s_merged", s_merged}});
  }
  CheckTensor("v_a", v_a).IsOneOf({DType::kF32, DType::kF16, DType::kBF16}).Rank(3);
  const StateRows a = CheckState("v_a", v_a, "s_a", s_a, v_a);
  const StateRows b = CheckState("v_b", v_b, "s_b", s_b, v_a);
  const StateRows merged = CheckState("v_merged", v_merged, "s_merged", s_merged, v_a);
  CheckTensor("v_merged", v_merged).NoOverlap().ApartOrSame("v_a", v_a).ApartOrSame("v_b", v_b);
  CheckTensor("s_merged", s_merged).NoOverlap().ApartOrSame("s_a", s_a).ApartOrSame("s_b", s_b);
  const auto& run = Choose<MergeStateOp>({v_a.dtype(), cuda::ArchOf(v_a.device())}, backend);
  run({.a = a,
       .b = b,
       .merged = merged,
       .num_tokens = v_a.shape(0),
       .num_heads = v_a.shape(1),
       .head_dim = v_a.shape(2),
       .dtype = v_a.dtype(),
       .stream = cuda::StreamOn(v_a.device(), stream)});
  if (LogLevel() >= 5) [[unlikely]] {
    LogReturn("merge_state", {{"v_merged", v_merged}, {"s_merged", s_merged}});
  }
}

void MergeStateInPlace(const TensorView& v, const TensorView& s, const TensorView& v_other,
                       const TensorView& s_other, const TensorView& mask, Backend backend,
                       Stream stream) {
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("merge_state_in_place",
            {{"v", v}, {"s", s}, {"v_other", v_other}, {"s_other", s_other}, {"mask", mask}});
  }
  CheckTensor("v", v).IsOneOf({DType::kF32, DType::kF16, DType::kBF16}).Rank(3);
  const StateRows state = CheckState("v", v, "s", s, v);
  const StateRows other = CheckState("v_other", v_other, "s_other", s_other, v);
  CheckTensor("v", v).NoOverlap().ApartOrSame("v_other", v_other);
  CheckTensor("s", s).NoOverlap().ApartOrSame("s_other", s_other);
  if (mask.defined()) {
    CheckTensor("mask", mask).On(v.device()).Is(DType::kBool).Shape({v.shape(0)});
  }
  const auto& run = Choose<MergeStateOp>({v.dtype(), cuda::ArchOf(v.device())}, backend);
  run({.a = state,
       .b = other,
       .merged = state,
       .mask = mask.defined() ? mask.data_as<const uint8_t>() : nullptr,
       .mask_stride = mask.defined() ? mask.stride(0) : 0,
       .num_tokens = v.shape(0),
       .num_heads = v.shape(1),
       .head_dim = v.shape(2),
       .dtype = v.dtype(),
       .stream = cuda::StreamOn(v.device(), stream)});
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("merge_state_in_place", {{"v", v}, {"s", s}});
}

}  // namespace flashinfer
