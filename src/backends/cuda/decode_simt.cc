// SPDX-License-Identifier: Apache-2.0
// Decode on CUDA cores: a plan in the workspace, and one launch a call.
#include "backends/cuda/decode_simt.h"

#include <algorithm>

#include "backends/cuda/attention_variant.h"
#include "backends/cuda/paged_decode.h"
#include "backends/cuda/problem.h"
#include "core/check.h"
#include "kernels/attention/decode_spec.h"

namespace flashinfer::cuda {
namespace {

int32_t RowTiles(const AttentionProblem& p, const kernels::DecodeSpec& spec) {
  return (p.group_size() + spec.rows_tile - 1) / spec.rows_tile;
}

DecodeGrid GridOf(const AttentionProblem& p, const kernels::DecodeSpec& spec) {
  return {.rows_tile = spec.rows_tile,
          .row_tiles = RowTiles(p, spec),
          .num_columns = DecodeColumns(spec),
          .kv_tile = DecodeKvTile(spec)};
}

kernels::DecodeSpec SpecOf(const AttentionProblem& p, int32_t access_bytes) {
  return kernels::MakeDecodeSpec({.dtype_q = p.dtype_q,
                                  .dtype_kv = p.dtype_kv,
                                  .dtype_out = p.dtype_out,
                                  .head_dim_qk = p.head_dim_qk,
                                  .head_dim_vo = p.head_dim_vo,
                                  .group_size = p.group_size(),
                                  .access_bytes = access_bytes,
                                  .soft_cap = p.logits_soft_cap > 0,
                                  .arch = p.arch});
}

/// Bytes to which every row of the cache is aligned, up to 16; fewer where queries and outputs
/// cannot be moved in as many elements, or in 4.
int32_t AccessBytes(const AttentionTensors& t, const AttentionProblem& p) {
  const auto element = static_cast<int32_t>(SizeBytes(p.dtype_kv));
  VectorSize size(16 / element);
  for (const TensorView& x : {t.cache.k, t.cache.v}) {
    size.Pointer(x.data(), p.dtype_kv).Count(x.stride(0)).Count(x.stride(1)).Count(x.stride(2));
  }
  VectorSize part(4);
  part.Pointer(t.q.data(), p.dtype_q).Pointer(t.out.data(), p.dtype_out);
  for (const TensorView& x : {t.q, t.out}) part.Count(x.stride(0)).Count(x.stride(1));
  const int32_t elements = size.Count(p.head_dim_qk).Count(p.head_dim_vo).value();
  return std::min(elements, part.value() < 4 ? part.value() : elements) * element;
}

class DecodeSimt final : public PagedDecode {
 public:
  void Run(const AttentionTensors& t, Stream stream) const override {
    if (is_empty()) return;
    const kernels::DecodeSpec spec = SpecFor(t);
    LaunchOn(spec == spec_ ? *kernel_ : VariantKernel(spec, problem().variant, device()), t,
             spec.vector_size, stream);
  }

 private:
  const Kernel& Prepare(const AttentionProblem& problem, Device device, DecodeGrid& grid) override {
    // Rows of caches are aligned to 16 bytes but for odd strides and sizes, which Run() sees.
    spec_ = SpecOf(problem, 16);
    kernel_ = &VariantKernel(spec_, problem.variant, device);
    grid = GridOf(problem, spec_);
    return *kernel_;
  }

  /// The planned spec; another one of the same tiles where rows are less aligned than that.
  kernels::DecodeSpec SpecFor(const AttentionTensors& t) const {
    kernels::DecodeSpec spec = spec_;
    const int32_t access_bytes = AccessBytes(t, problem());
    if (access_bytes < spec.vector_size * kernels::DecodeElementBytes(spec.dtype_kv)) {
      spec = SpecOf(problem(), access_bytes);
      FLASHINFER_CHECK(spec.rows_tile == spec_.rows_tile,
                       "tensors: rows are aligned to {} bytes of the cache, accepted with head_dim "
                       "{}: 4 or more",
                       access_bytes, problem().head_dim_vo);
    }
    spec.wide_strides = IsWide(t.cache, spec.vector_size);
    return spec;
  }

  kernels::DecodeSpec spec_;
  const Kernel* kernel_ = nullptr;
};

}  // namespace

bool AcceptsDecodeSimt(const AttentionProblem& p, std::string* why) {
  if (!IsOnArch(p.arch, kernels::DecodeSpec::kMinArch, why)) return false;
  if (!IsFloat(p.dtype_q) && !IsFp8(p.dtype_q)) {
    return Refuse(why, "dtype_q must be f32, f16, bf16, e4m3 or e5m2");
  }
  if (!IsFloat(p.dtype_kv) && !IsFp8(p.dtype_kv) && p.dtype_kv != DType::kI8) {
    return Refuse(why, "dtype_kv must be f32, f16, bf16, e4m3, e5m2 or i8");
  }
  if (!IsFloat(p.dtype_out) && !IsFp8(p.dtype_out)) {
    return Refuse(why, "dtype_out must be f32, f16, bf16, e4m3 or e5m2");
  }
  if (p.mask != MaskMode::kNone && p.mask != MaskMode::kCausal) {
    return Refuse(why, "mask must be none or causal");
  }
  if (p.pos_encoding != PositionEncoding::kNone) return Refuse(why, "pos_encoding must be none");
  if (p.has_bias) return Refuse(why, "has_bias must be 0");
  if (!AcceptsVariant(p, why)) return false;
  if (int64_t{p.num_qo_heads} > 65535) return Refuse(why, "num_qo_heads must be at most 65535");
  return true;
}

std::unique_ptr<AttentionExecutor> MakeDecodeSimt() { return std::make_unique<DecodeSimt>(); }

size_t DecodeSimtWorkspaceBytes(const AttentionProblem& problem, int64_t max_requests, int64_t) {
  if (max_requests == 0) return 0;
  const kernels::DecodeSpec spec = SpecOf(problem, 16);
  return DecodePartialBytes(problem, GridOf(problem, spec));
}

}  // namespace flashinfer::cuda
