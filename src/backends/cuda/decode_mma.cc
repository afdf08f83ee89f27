// SPDX-License-Identifier: Apache-2.0
// Decode on tensor cores: a plan in the workspace, and one launch a call.
#include "backends/cuda/decode_mma.h"

#include <algorithm>

#include "backends/cuda/attention_variant.h"
#include "backends/cuda/paged_decode.h"
#include "backends/cuda/problem.h"
#include "kernels/attention/decode_mma_spec.h"

namespace flashinfer::cuda {
namespace {

using kernels::DecodeMmaSpec;

DecodeMmaSpec SpecOf(const AttentionProblem& p, int32_t access_bytes) {
  return kernels::MakeDecodeMmaSpec({.dtype_q = p.dtype_q,
                                     .dtype_kv = p.dtype_kv,
                                     .dtype_out = p.dtype_out,
                                     .head_dim_qk = p.head_dim_qk,
                                     .head_dim_vo = p.head_dim_vo,
                                     .group_size = p.group_size(),
                                     .access_bytes = access_bytes,
                                     .soft_cap = p.logits_soft_cap > 0,
                                     .arch = p.arch});
}

int32_t RowTiles(const AttentionProblem& p, const DecodeMmaSpec& spec) {
  return (p.group_size() + spec.rows_tile - 1) / spec.rows_tile;
}

DecodeGrid GridOf(const AttentionProblem& p, const DecodeMmaSpec& spec) {
  return {.rows_tile = spec.rows_tile,
          .row_tiles = RowTiles(p, spec),
          .num_columns = p.head_dim_vo,
          .kv_tile = DecodeMmaKvTile(spec)};
}

/// Bytes to which every row of the cache is aligned, up to 16.
int32_t AccessBytes(const PagedKvCache& cache, const AttentionProblem& p) {
  const auto element = static_cast<int32_t>(SizeBytes(p.dtype_kv));
  VectorSize size(16 / element);
  for (const TensorView& t : {cache.k, cache.v}) {
    size.Pointer(t.data(), p.dtype_kv).Count(t.stride(0)).Count(t.stride(1)).Count(t.stride(2));
  }
  return size.Count(p.head_dim_qk).Count(p.head_dim_vo).value() * element;
}

/// Of a cache of dense rows, as nearly all are.
int32_t LikelyAccessBytes(const AttentionProblem& p) {
  const auto element = static_cast<int32_t>(SizeBytes(p.dtype_kv));
  return VectorSize(16 / element).Count(p.head_dim_qk).Count(p.head_dim_vo).value() * element;
}

class DecodeMma final : public PagedDecode {
 public:
  void Run(const AttentionTensors& t, Stream stream) const override {
    if (is_empty()) return;
    DecodeMmaSpec spec = spec_;
    spec.access_bytes = std::min(AccessBytes(t.cache, problem()), spec_.access_bytes);
    const int64_t access_elements = spec.access_bytes / SizeBytes(spec.dtype_kv);
    spec.wide_strides = IsWide(t.cache, access_elements);
    LaunchOn(spec == spec_ ? *kernel_ : VariantKernel(spec, problem().variant, device()), t,
             access_elements, stream);
  }

 private:
  const Kernel& Prepare(const AttentionProblem& problem, Device device, DecodeGrid& grid) override {
    spec_ = SpecOf(problem, LikelyAccessBytes(problem));
    kernel_ = &VariantKernel(spec_, problem.variant, device);
    grid = GridOf(problem, spec_);
    return *kernel_;
  }

  DecodeMmaSpec spec_;
  const Kernel* kernel_ = nullptr;
};

}  // namespace

bool AcceptsDecodeMma(const AttentionProblem& p, std::string* why) {
  if (!IsOnArch(p.arch, DecodeMmaSpec::kMinArch, why)) return false;
  if (p.group_size() == 1) return Refuse(why, "group_size must be 2 or more");
  if (p.dtype_q != DType::kF16 && p.dtype_q != DType::kBF16) {
    return Refuse(why, "dtype_q must be f16 or bf16");
  }
  if (p.arch < 80 && p.dtype_kv == DType::kBF16) {
    return Refuse(why, "bf16 on tensor cores needs SM80");
  }
  if (p.dtype_kv != p.dtype_q && !IsFp8(p.dtype_kv) && p.dtype_kv != DType::kI8) {
    return Refuse(why, "dtype_kv must be dtype_q, e4m3, e5m2 or i8");
  }
  // Weights are rounded to 16 bits: f32 would promise more.
  if (p.dtype_out != DType::kF16 && p.dtype_out != DType::kBF16 && !IsFp8(p.dtype_out)) {
    return Refuse(why, "dtype_out must be f16, bf16, e4m3 or e5m2");
  }
  if (p.head_dim_qk > 256 || p.head_dim_vo > 256)
    return Refuse(why, "head_dim must be at most 256");
  if (p.mask != MaskMode::kNone && p.mask != MaskMode::kCausal) {
    return Refuse(why, "mask must be none or causal");
  }
  if (p.pos_encoding != PositionEncoding::kNone) return Refuse(why, "pos_encoding must be none");
  if (p.has_bias) return Refuse(why, "has_bias must be 0");
  if (!AcceptsVariant(p, why)) return false;
  if (p.num_qo_heads > 65535) return Refuse(why, "num_qo_heads must be at most 65535");
  return true;
}

bool DecodeMmaYields(const AttentionProblem& p) {
  return p.variant != nullptr || (SizeBytes(p.dtype_kv) == 2 && p.group_size() <= 4);
}

std::unique_ptr<AttentionExecutor> MakeDecodeMma() { return std::make_unique<DecodeMma>(); }

size_t DecodeMmaWorkspaceBytes(const AttentionProblem& problem, int64_t max_requests, int64_t) {
  if (max_requests == 0) return 0;
  const DecodeMmaSpec spec = SpecOf(problem, LikelyAccessBytes(problem));
  return DecodePartialBytes(problem, GridOf(problem, spec));
}

}  // namespace flashinfer::cuda
