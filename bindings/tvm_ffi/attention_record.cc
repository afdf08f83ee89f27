// SPDX-License-Identifier: Apache-2.0
// Packed attention problems become those of the public headers.
#include "bindings/tvm_ffi/attention_record.h"

#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "flashinfer/error.h"

namespace flashinfer::bindings {
namespace {

template <class Record>
Record Read(const tvm::ffi::Bytes& bytes) {
  if (bytes.size() < sizeof(Record)) {
    throw Error(ErrorKind::kInternal, "a problem record has " + std::to_string(bytes.size()) +
                                          " bytes, expected " + std::to_string(sizeof(Record)));
  }
  Record record;
  std::memcpy(&record, bytes.data(), sizeof(Record));
  return record;
}

/// `value` as an enumeration of `count` members.
template <class Enum>
Enum EnumOf(const char* name, int32_t value, int32_t count) {
  if (value < 0 || value >= count) {
    throw Error(ErrorKind::kInvalidArgument, std::string(name) + ": is " + std::to_string(value) +
                                                 ", accepted: 0 to " + std::to_string(count - 1));
  }
  return static_cast<Enum>(value);
}

/// A caller's scale of 0 makes all scores equal; to a problem 0 means the default, which NaN does
/// here.
float ScaleOf(float sm_scale) {
  if (sm_scale != sm_scale) return 0;
  return sm_scale == 0 ? std::numeric_limits<float>::min() : sm_scale;
}

TensorView Plane(const TensorView& cache, int64_t plane) {
  Dims shape{cache.shape(0)};
  Dims strides{cache.stride(0)};
  for (int i = 2; i < cache.rank(); ++i) {
    shape.Append(cache.shape(i));
    strides.Append(cache.stride(i));
  }
  auto* const data = cache.data_as<char>() + plane * cache.stride(1) * SizeBytes(cache.dtype());
  return {static_cast<void*>(data), cache.dtype(), shape, strides, cache.device()};
}

/// A tensor of rank 3, whose pages are tokens, as one of rank 4.
TensorView WithPageSize(const TensorView& cache, KvLayout layout) {
  if (cache.rank() != 3) return cache;
  const int at = layout == KvLayout::kNHD ? 1 : 2;
  Dims shape;
  Dims strides;
  for (int i = 0; i < 3; ++i) {
    if (i == at) {
      shape.Append(1);
      strides.Append(0);
    }
    shape.Append(cache.shape(i));
    strides.Append(cache.stride(i));
  }
  return {cache.data(), cache.dtype(), shape, strides, cache.device()};
}

}  // namespace

AttentionRecord ReadAttentionRecord(const tvm::ffi::Bytes& bytes) {
  return Read<AttentionRecord>(bytes);
}

Backend BackendOf(const tvm::ffi::Bytes& bytes, size_t record_bytes) {
  if (bytes.size() <= record_bytes) return Backend();
  return Backend(std::string_view(bytes.data() + record_bytes, bytes.size() - record_bytes));
}

AttentionProblem ProblemOf(const AttentionRecord& r) {
  return {.dtype_q = EnumOf<DType>("dtype_q", r.dtype_q, kNumDTypes),
          .dtype_kv = EnumOf<DType>("dtype_kv", r.dtype_kv, kNumDTypes),
          .dtype_out = EnumOf<DType>("dtype_out", r.dtype_out, kNumDTypes),
          .num_qo_heads = r.num_qo_heads,
          .num_kv_heads = r.num_kv_heads,
          .head_dim_qk = r.head_dim_qk,
          .head_dim_vo = r.head_dim_vo,
          .page_size = r.page_size,
          .mask = EnumOf<MaskMode>("mask", r.mask, 4),
          .window_left = r.window_left,
          .sm_scale = ScaleOf(r.sm_scale),
          .logits_soft_cap = r.logits_soft_cap,
          .pos_encoding = EnumOf<PositionEncoding>("pos_encoding_mode", r.pos_encoding, 3),
          .rope_scale = r.rope_scale,
          .rope_theta = r.rope_theta,
          .fixed_split_size = r.fixed_split_size};
}

KvLayout LayoutOf(const AttentionRecord& record) {
  return EnumOf<KvLayout>("kv_layout", record.kv_layout, 2);
}

PagedKvCache CacheOf(const TensorView& k, const TensorView& v, KvLayout layout) {
  if (v.defined()) return {WithPageSize(k, layout), WithPageSize(v, layout), layout};
  if ((k.rank() != 5 && k.rank() != 4) || k.shape(1) != 2) {
    throw Error(ErrorKind::kInvalidArgument,
                "paged_kv_cache: is " + Text(k) +
                    ", accepted: a pair (k, v), and one tensor [num_pages, 2, …] of rank 5 or, "
                    "where a page is a token, 4");
  }
  return {WithPageSize(Plane(k, 0), layout), WithPageSize(Plane(k, 1), layout), layout};
}

MlaProblem ReadMlaProblem(const tvm::ffi::Bytes& bytes) {
  const auto r = Read<MlaRecord>(bytes);
  return {.dtype_q = EnumOf<DType>("dtype_q", r.dtype_q, kNumDTypes),
          .dtype_kv = EnumOf<DType>("dtype_kv", r.dtype_kv, kNumDTypes),
          .dtype_out = EnumOf<DType>("dtype_out", r.dtype_out, kNumDTypes),
          .num_heads = r.num_heads,
          .head_dim_ckv = r.head_dim_ckv,
          .head_dim_kpe = r.head_dim_kpe,
          .page_size = r.page_size,
          .causal = r.causal != 0,
          .window_left = r.window_left,
          .sm_scale = r.sm_scale,
          .logits_soft_cap = r.logits_soft_cap,
          .fixed_split_size = r.fixed_split_size,
          .arch = r.arch};
}

}  // namespace flashinfer::bindings
