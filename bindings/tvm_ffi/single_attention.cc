// SPDX-License-Identifier: Apache-2.0
// Attention of one request, for other languages.
#include <tvm/ffi/container/array.h>

#include <memory>
#include <vector>

#include "bindings/tvm_ffi/attention_plan.h"
#include "bindings/tvm_ffi/attention_record.h"
#include "bindings/tvm_ffi/call.h"
#include "flashinfer/attention/decode.h"
#include "flashinfer/attention/prefill.h"

namespace flashinfer::bindings {
namespace {

using tvm::ffi::Array;
using tvm::ffi::Bytes;
using tvm::ffi::Optional;
using tvm::ffi::Tensor;

/// Scratch memory of this thread's calls on a stream. It grows to the largest need and stays.
Workspace& WorkspaceOn(Stream stream) {
  struct Entry {
    Stream stream;
    std::unique_ptr<Workspace> workspace;
  };
  thread_local std::vector<Entry> entries;
  for (Entry& e : entries) {
    if (e.stream.device == stream.device && e.stream.handle == stream.handle) return *e.workspace;
  }
  entries.push_back({stream, std::make_unique<Workspace>(stream.device)});
  return *entries.back().workspace;
}

void Run(const Bytes& record, const SingleAttentionTensors& tensors,
         const AttentionVariant* variant = nullptr) {
  const AttentionRecord read = ReadAttentionRecord(record);
  const Backend backend = BackendOf(record, sizeof(AttentionRecord));
  AttentionProblem problem = ProblemOf(read);
  problem.has_sinks = tensors.extras.sinks.defined();
  problem.has_bias = tensors.extras.bias.defined();
  problem.variant = variant;
  SingleAttentionTensors t = tensors;
  t.kv.layout = LayoutOf(read);
  const Stream stream = StreamOf(t.q);
  if (t.q.rank() == 2) {
    SingleDecode(problem, t, WorkspaceOn(stream), backend, stream);
  } else {
    SinglePrefill(problem, t, WorkspaceOn(stream), backend, stream);
  }
}

/// A decode when `q` has two dimensions.
void Single(const Bytes& record, const TensorView& q, const TensorView& k, const TensorView& v,
            const TensorView& out, const TensorView& lse, const TensorView& custom_mask) {
  Run(record, {.q = q, .kv = {k, v}, .out = out, .lse = lse, .mask = {custom_mask}});
}

void SingleWith(const Bytes& record, const TensorView& q, const TensorView& k, const TensorView& v,
                const TensorView& out, const TensorView& lse, const TensorView& custom_mask,
                const Array<double>& scales, const Array<Optional<Tensor>>& extras) {
  Run(record, {.q = q,
               .kv = {k, v},
               .out = out,
               .lse = lse,
               .mask = {custom_mask},
               .extras = ExtrasOf(scales, extras)});
}

/// `tensors` are the variant's tensors, `numbers` its numbers.
void SingleVariant(const Bytes& record, const Variant& variant, const TensorView& q,
                   const TensorView& k, const TensorView& v, const TensorView& out,
                   const TensorView& lse, const Array<Optional<Tensor>>& tensors,
                   const Array<double>& numbers) {
  const std::vector<VariantValue> values = ValuesOf(tensors, numbers);
  SingleAttentionTensors all{.q = q, .kv = {k, v}, .out = out, .lse = lse};
  all.extras.variant_values = values;
  Run(record, all, &variant->variant());
}

}  // namespace
}  // namespace flashinfer::bindings

FLASHINFER_EXPORT(single_attention, flashinfer::bindings::Single)
FLASHINFER_EXPORT(single_attention_with, flashinfer::bindings::SingleWith)
FLASHINFER_EXPORT(single_attention_variant, flashinfer::bindings::SingleVariant)
