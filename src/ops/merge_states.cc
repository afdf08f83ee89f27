// SPDX-License-Identifier: Apache-2.0
// Merging many attention states at once: check, choose, run.
#include "ops/merge_states.h"

#include "core/check.h"
#include "core/log.h"
#include "core/overlap.h"
#include "cuda/device.h"
#include "dispatch/choose.h"

namespace flashinfer {
namespace {

struct States {
  const TensorView& v;
  const TensorView& s;
};

/// Whether `merged` is one state of every token, in place of which the result may be written.
bool IsOneState(const TensorView& merged, const TensorView& states) {
  if (states.rank() != merged.rank() + 1 || states.num_elements() == 0) return false;
  Dims shape, strides;
  for (int i = 0; i < states.rank(); ++i) {
    if (i == 1) continue;
    shape.Append(states.shape(i));
    strides.Append(states.stride(i));
  }
  for (int64_t i = 0; i < states.shape(1); ++i) {
    char* data = states.data_as<char>() + i * states.stride(1) * SizeBytes(states.dtype());
    if (data != merged.data()) continue;
    return IsSameView(merged, {data, states.dtype(), shape, strides, states.device()});
  }
  return false;
}

StateRows CheckMerged(const States& states, const TensorView& v_merged, const TensorView& s_merged,
                      int64_t num_tokens) {
  const TensorView& v = states.v;
  const int64_t num_heads = v.shape(v.rank() - 2);
  CheckTensor("v_merged", v_merged)
      .On(v.device())
      .Is(v.dtype())
      .Shape({num_tokens, num_heads, v.shape(v.rank() - 1)})
      .LastDimDense()
      .NoOverlap();
  CheckTensor("s_merged", s_merged)
      .On(v.device())
      .Is(DType::kF32)
      .Shape({num_tokens, num_heads})
      .NoOverlap();
  if (!IsOneState(v_merged, v)) CheckTensor("v_merged", v_merged).Apart("v", v);
  if (!IsOneState(s_merged, states.s)) CheckTensor("s_merged", s_merged).Apart("s", states.s);
  return {v_merged.data(),    s_merged.data_as<float>(), v_merged.stride(0),
          v_merged.stride(1), s_merged.stride(0),        s_merged.stride(1)};
}

void RunStates(std::string_view name, const MergeStatesParams& params, const TensorView& v_merged,
               const TensorView& s_merged, Backend backend) {
  Choose<MergeStatesOp>({params.dtype, cuda::ArchOf(v_merged.device())}, backend)(params);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn(name, {{"v_merged", v_merged}, {"s_merged", s_merged}});
}

}  // namespace

void MergeStates(const TensorView& v, const TensorView& s, const TensorView& v_merged,
                 const TensorView& s_merged, Backend backend, Stream stream) {
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("merge_states", {{"v", v}, {"s", s}, {"v_merged", v_merged}, {"s_merged", s_merged}});
  }
  CheckTensor("v", v).IsOneOf({DType::kF32, DType::kF16, DType::kBF16}).Rank(4).LastDimDense();
  CheckTensor("s", s).On(v.device()).Is(DType::kF32).Shape({v.shape(0), v.shape(1), v.shape(2)});
  const StateRows merged = CheckMerged({v, s}, v_merged, s_merged, v.shape(0));
  RunStates(
      "merge_states",
      {.states = {v.data(), s.data_as<float>(), v.stride(0), v.stride(2), s.stride(0), s.stride(2)},
       .v_stride_state = v.stride(1),
       .s_stride_state = s.stride(1),
       .merged = merged,
       .num_states = v.shape(1),
       .num_tokens = v.shape(0),
       .num_heads = v.shape(2),
       .head_dim = v.shape(3),
       .dtype = v.dtype(),
       .stream = cuda::StreamOn(v.device(), stream)},
      v_merged, s_merged, backend);
}

void VariableLengthMergeStates(const TensorView& v, const TensorView& s, const TensorView& indptr,
                               const TensorView& v_merged, const TensorView& s_merged,
                               Backend backend, Stream stream) {
  if (LogLevel() > 0) [[unlikely]] {
    LogCall(
        "variable_length_merge_states",
        {{"v", v}, {"s", s}, {"indptr", indptr}, {"v_merged", v_merged}, {"s_merged", s_merged}});
  }
  CheckTensor("v", v).IsOneOf({DType::kF32, DType::kF16, DType::kBF16}).Rank(3).LastDimDense();
  CheckTensor("s", s).On(v.device()).Is(DType::kF32).Shape({v.shape(0), v.shape(1)});
  CheckTensor("indptr", indptr).On(v.device()).Is(DType::kI32).Rank(1);
  const int64_t num_tokens = indptr.shape(0) - 1;
  if (v.device().type == DeviceType::kCpu) {
    CheckIndptr("indptr", indptr);
    const int32_t end = indptr.data_as<const int32_t>()[num_tokens * indptr.stride(0)];
    FLASHINFER_CHECK(end <= v.shape(0), "indptr[{}]: is {}, v has {} states", num_tokens, end,
                     v.shape(0));
  }
  FLASHINFER_CHECK(num_tokens >= 0, "indptr: is empty, expected num_tokens + 1 values");
  const StateRows merged = CheckMerged({v, s}, v_merged, s_merged, num_tokens);
  RunStates("variable_length_merge_states",
            {.states = {v.data(), s.data_as<float>(), 0, v.stride(1), 0, s.stride(1)},
             .v_stride_state = v.stride(0),
             .s_stride_state = s.stride(0),
             .merged = merged,
             .indptr = indptr.data_as<const int32_t>(),
             .indptr_stride = indptr.stride(0),
             .num_tokens = num_tokens,
             .num_heads = v.shape(1),
             .head_dim = v.shape(2),
             .dtype = v.dtype(),
             .stream = cuda::StreamOn(v.device(), stream)},
            v_merged, s_merged, backend);
}

}  // namespace flashinfer
