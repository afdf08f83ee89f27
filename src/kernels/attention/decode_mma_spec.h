// SPDX-License-Identifier: Apache-2.0
// Paged decode on tensor cores: what changes the kernel's code. Its parameters are those of decode
// on CUDA cores, with partial_o [num_partials, num_tiles, rows_tile, head_dim_vo].
#pragma once

#include "core/field_list.h"
#include "flashinfer/dtype.h"
#include "kernels/attention/decode_spec.h"
#include "kernels/portable.h"

namespace flashinfer::kernels {

/// Every field changes the machine code.
struct DecodeMmaSpec {
  using Params = DecodeParams;
  static constexpr const char* kName = "decode.mma";
  static constexpr const char* kType = "DecodeMmaSpec";
  static constexpr const char* kHeader = "kernels/attention/decode_mma_sm75.cuh";
  static constexpr const char* kNamespace = "decode_mma";
  static constexpr int kMinArch = 75;

  DType dtype_q = DType::kBF16;   ///< f16 or bf16: what is multiplied
  DType dtype_kv = DType::kBF16;  ///< dtype_q, e4m3, e5m2 or i8
  DType dtype_out = DType::kBF16;
  int32_t head_dim_qk = 128;
  int32_t head_dim_vo = 128;
  int32_t access_bytes = 16;  ///< of a copy from the cache, up to 16
  int32_t rows_tile = 8;      ///< query heads of a block: 8, 16 or 32
  int32_t num_warps = 8;      ///< each takes 16 tokens of a stage
  int32_t num_stages = 3;     ///< depth of the copy ring
  bool soft_cap = false;
  bool wide_strides = false;  ///< the cache spans 2^32 accesses or more

  friend constexpr bool operator==(const DecodeMmaSpec&, const DecodeMmaSpec&) = default;
};

template <FieldsOf<DecodeMmaSpec> Self, class Visit>
constexpr void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype_q)
  FLASHINFER_NAMED(dtype_kv)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(head_dim_qk)
  FLASHINFER_NAMED(head_dim_vo)
  FLASHINFER_NAMED(access_bytes)
  FLASHINFER_NAMED(rows_tile)
  FLASHINFER_NAMED(num_warps)
  FLASHINFER_NAMED(num_stages)
  FLASHINFER_NAMED(soft_cap)
  FLASHINFER_NAMED(wide_strides)
}

inline constexpr int32_t kDecodeMmaTokens = 16;  ///< of a warp in a stage: k of mma

/// bf16 on tensor cores needs SM80. Values of 8 bits are multiplied as f16.
constexpr int32_t MinArch(const DecodeMmaSpec& s) {
  return DecodeElementBytes(s.dtype_kv) == 2 && s.dtype_q == DType::kBF16 ? 80 : 75;
}

/// Shared memory leaves room for one or two blocks: registers need not be spared for more.
constexpr int32_t MinBlocksPerSm(const DecodeMmaSpec&) { return 1; }

/// A user's variant may be compiled into it.
constexpr bool TakesVariants(const DecodeMmaSpec&) { return true; }

constexpr int32_t NumThreads(const DecodeMmaSpec& s) { return s.num_warps * 32; }

/// Tokens that a block works on at a time.
constexpr int32_t DecodeMmaKvTile(const DecodeMmaSpec& s) { return s.num_warps * kDecodeMmaTokens; }

/// Bytes between rows of a stage, with room for whole fragments. Rows of a multiple of 64 bytes lie
/// without gaps, and DecodeMmaSwizzle() makes 8 of them hit all banks. Others are an odd number of
/// 16 bytes apart, which is slower: a 32-byte sector whose copy is not aligned to 32 bytes in
/// shared memory is read twice from the L2 cache. H200, 2026-12-01, 64/8 heads, B64 of 8k tokens:
/// 256-byte rows without gaps 479 µs, 272 bytes apart 512 (2.6 times the requests and 1.5 times the
/// sectors to L2); 128-byte rows 250 and 278. Copies of whole rows by cp.async.bulk take 524 and
/// 369.
constexpr int32_t DecodeMmaPitch(const DecodeMmaSpec& s, int32_t head_dim) {
  const int32_t bytes = head_dim * DecodeElementBytes(s.dtype_kv);
  if (bytes % 64 == 0) return bytes;
  return (bytes + 31) / 32 * 32 + 16;
}

/// What the byte offset of a column in row `row` of a stage is exclusive-ored with.
constexpr int32_t DecodeMmaSwizzle(int32_t pitch, int32_t row) {
  if (pitch % 128 == 0) return row % 8 * 16;
  return pitch % 64 == 0 ? row / 2 % 4 * 16 : 0;
}

/// Columns between rows of a warp's outputs in shared memory.
constexpr int32_t DecodeMmaOutputPitch(const DecodeMmaSpec& s) {
  return (s.head_dim_vo + 31) / 32 * 32 + 4;
}

/// A warp's part of a stage, which takes 8 rows of its outputs in between.
constexpr int32_t DecodeMmaWarpBytes(const DecodeMmaSpec& s) {
  const int32_t tokens =
      kDecodeMmaTokens * (DecodeMmaPitch(s, s.head_dim_qk) + DecodeMmaPitch(s, s.head_dim_vo));
  const int32_t outputs = 8 * DecodeMmaOutputPitch(s) * 4;
  return tokens > outputs ? tokens : outputs;
}

constexpr int32_t DecodeMmaStageBytes(const DecodeMmaSpec& s) {
  return s.num_warps * DecodeMmaWarpBytes(s);
}

/// The ring, maxima and sums of each warp's rows, and a flag.
constexpr int32_t SmemBytes(const DecodeMmaSpec& s) {
  return s.num_stages * DecodeMmaStageBytes(s) + s.num_warps * s.rows_tile * 2 * 4 + 16;
}

/// What decides the spec of a decode.
struct DecodeMmaShape {
  DType dtype_q;
  DType dtype_kv;
  DType dtype_out;
  int32_t head_dim_qk;
  int32_t head_dim_vo;
  int32_t group_size;
  int32_t access_bytes;  ///< to which all rows of the cache are aligned
  bool soft_cap;
  int32_t arch;
};

/// Shared memory of a multiprocessor; a block's reserved 1 KB included.
constexpr int32_t DecodeMmaSmemPerSm(int32_t arch) {
  if (arch < 80) return 64 * 1024;
  if (arch == 80 || arch == 87) return 164 * 1024;
  if (arch >= 90 && arch < 120) return 228 * 1024;
  return 100 * 1024;
}

/// The most stages, of 2 to 6, that fit `blocks` times into a multiprocessor; 0: not even 2 do.
constexpr int32_t DecodeMmaStages(DecodeMmaSpec s, int32_t arch, int32_t blocks) {
  for (s.num_stages = 6; s.num_stages >= 2; --s.num_stages) {
    if (blocks * (SmemBytes(s) + 1024) <= DecodeMmaSmemPerSm(arch)) return s.num_stages;
  }
  return 0;
}

constexpr DecodeMmaSpec MakeDecodeMmaSpec(const DecodeMmaShape& shape) {
  DecodeMmaSpec s;
  s.dtype_q = shape.dtype_q;
  s.dtype_kv = shape.dtype_kv;
  s.dtype_out = shape.dtype_out;
  s.head_dim_qk = shape.head_dim_qk;
  s.head_dim_vo = shape.head_dim_vo;
  s.access_bytes = shape.access_bytes;
  s.soft_cap = shape.soft_cap;
  const int32_t widest =
      shape.head_dim_qk > shape.head_dim_vo ? shape.head_dim_qk : shape.head_dim_vo;
  // Outputs of a lane are rows_tile / 4 a column of 16.
  while (s.rows_tile < 32 && s.rows_tile < shape.group_size && 2 * s.rows_tile * widest <= 2048) {
    s.rows_tile *= 2;
  }
  // One block of 8 warps, where it fits: half as many pieces as two of 4, and twice the threads to
  // merge them. H200, 2026-11-30, 64/8/128 bf16, B1 of 1k, 8k, 32k, 128k and B64 of 8k tokens:
  // 10.2, 16.7, 40.7, 143 and 513 µs; two blocks of 4: 11.8, 18.1, 43.4, 139 and 529. With rows
  // that are swizzled, 2026-12-01, B1 of 128k and B64 of 8k: 128 and 479; two blocks 130 and 489,
  // three 130 and 491; two and four KV heads side by side in a block 129 and 489, 143 and 489.
  for (s.num_warps = 8;; s.num_warps /= 2) {
    s.num_stages = DecodeMmaStages(s, shape.arch, s.num_warps == 8 ? 1 : 2);
    if (s.num_stages < 2) s.num_stages = DecodeMmaStages(s, shape.arch, 1);
    if (s.num_stages >= 2 || s.num_warps == 1) break;
  }
  if (s.num_stages < 2) s.num_stages = 2;
  return s;
}

}  // namespace flashinfer::kernels
