// SPDX-License-Identifier: Apache-2.0
// Quantisation of blocks with narrow scales, and back, on CUDA devices: picks the spec of a call
// and launches its kernel.
#include "backends/cuda/quantize_blocks.h"

#include <algorithm>

#include "backends/cuda/problem.h"
#include "backends/cuda/scale_layout.h"
#include "cuda/launch.h"
#include "jit/store.h"
#include "kernels/quantize/quantize_blocks_spec.h"

namespace flashinfer::cuda {
namespace {

DType QTypeOf(BlockFormat format) {
  switch (format) {
    case BlockFormat::kMxFp8E4M3:
      return DType::kE4M3;
    case BlockFormat::kMxFp8E5M2:
      return DType::kE5M2;
    default:
      return DType::kE2M1x2;
  }
}

kernels::QuantizeBlocksSpec SpecOf(const QuantizeBlocksParams& p) {
  const auto per_byte = static_cast<int32_t>(ElementsPerByte(p.format));
  kernels::QuantizeBlocksSpec spec{.dtype = p.dtype,
                                   .dtype_q = QTypeOf(p.format),
                                   .block_size = static_cast<int32_t>(ElementsPerBlock(p.format)),
                                   .inverse = p.inverse};
  const int32_t q_bytes = VectorSize(kernels::kQuantizeBlocksElements / per_byte)
                              .Pointer(p.q, DType::kU8)
                              .Count(p.q_stride)
                              .value();
  spec.vector_size = VectorSize(p.dtype == DType::kF32 ? 4 : 8)
                         .Pointer(p.x, p.dtype)
                         .Count(p.x_stride)
                         .Count(p.hidden_size)
                         .value();
  if (p.inverse) {
    spec.vector_size = std::min(spec.vector_size, q_bytes * per_byte);
    spec.q_bytes = std::max(1, spec.vector_size / per_byte);
  } else {
    spec.q_bytes = q_bytes;
  }
  spec.row_threads = kernels::QuantizeBlocksRowThreads(p.inverse ? p.hidden_size : p.padded_size);
  return spec;
}

}  // namespace

bool AcceptsQuantizeBlocks(const QuantizeBlocksProblem& p, std::string* why) {
  if (!IsOnArch(p.arch, kernels::QuantizeBlocksSpec::kMinArch, why)) return false;
  if (!IsFloat(p.dtype)) return Refuse(why, "dtype must be f32, f16 or bf16");
  // With a piece to spare: columns are counted in 32 bits.
  return p.padded_size < (int64_t{1} << 30) || Refuse(why, "padded_size must be less than 2^30");
}

void RunQuantizeBlocks(const QuantizeBlocksParams& p) {
  const int64_t block_size = ElementsPerBlock(p.format);
  const int64_t padded_rows = PaddedScaleRows(p.scale_layout, p.num_rows);
  const int64_t padded_blocks = PaddedScaleBlocks(p.scale_layout, p.padded_size / block_size);
  const kernels::QuantizeBlocksSpec spec = SpecOf(p);
  const int64_t rows = p.inverse ? p.num_rows : padded_rows;
  const int64_t columns = p.inverse ? p.hidden_size : padded_blocks * block_size;
  const int64_t pieces = (columns + QuantizeBlocksPiece(spec) - 1) / QuantizeBlocksPiece(spec);
  const int64_t row_groups = (rows + QuantizeBlocksRows(spec) - 1) / QuantizeBlocksRows(spec);
  if (pieces == 0 || row_groups == 0) return;
  Launch(jit::GetKernel(spec, p.stream.device),
         {.grid_x = row_groups * pieces, .overlaps_previous = true},
         kernels::QuantizeBlocksKernelParams{
             .x = p.x,
             .q = p.q,
             .scales = p.scales,
             .global_scale_data = p.global_scale_data,
             .num_rows = p.num_rows,
             .padded_rows = padded_rows,
             .x_stride = p.x_stride,
             .q_stride = p.q_stride,
             .hidden_size = static_cast<int32_t>(p.hidden_size),
             .padded_size = static_cast<int32_t>(p.padded_size),
             .padded_blocks = static_cast<int32_t>(padded_blocks),
             .tile_rows = TileRowsOf(p.scale_layout),
             .pieces = kernels::MakeDivisor(static_cast<uint32_t>(pieces)),
             .global_scale = p.global_scale},
         p.stream);
}

}  // namespace flashinfer::cuda
