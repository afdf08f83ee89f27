// SPDX-License-Identifier: Apache-2.0
// Latent attention as a naive float64 loop, and batches to try it on.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/mla.h"
#include "support/host_tensor.h"

namespace flashinfer::test {

/// A batch by its lengths; head counts and dims are those of the problem.
struct MlaCase {
  MlaProblem problem;
  std::vector<int32_t> q_len;
  std::vector<int32_t> kv_len;
  bool is_interleaved = false;  ///< both caches are parts of one tensor's rows
  float ckv_scale = 1;
  float kpe_scale = 1;
  int32_t num_scale_blocks = 0;  ///< above 0: MlaCache::ckv_scales
};

/// Tensors of a case: pages shuffled over a larger pool, everything not a valid token is NaN.
struct MlaInputs {
  MlaInputs(const MlaCase& c, uint64_t seed);

  HostTensor q_nope;
  HostTensor q_pe;
  HostTensor out;
  HostTensor lse;
  HostTensor pool;      ///< [num_pages, page_size, …]: ckv, and kpe behind it or in kpe_pool
  HostTensor kpe_pool;  ///< not used when interleaved
  HostTensor scales;
  std::vector<int32_t> qo_indptr;
  std::vector<int32_t> indptr;
  std::vector<int32_t> indices;
  std::vector<int32_t> kv_len;

  MlaCache cache() const;
  MlaPageTable pages() const;
  TensorView qo_indptr_view() const;
  /// Element d of the stored key `token` of request b: ckv, then kpe.
  double Stored(int64_t b, int64_t token, int64_t d) const;
  void SetStored(int64_t b, int64_t token, int64_t d, double value);
  /// The same times its scale.
  double Key(int64_t b, int64_t token, int64_t d) const;

 private:
  int64_t PageOf(int64_t b, int64_t token) const;
  const MlaCase case_;
};

struct MlaResult {
  std::vector<double> out;  // [num_tokens, num_heads, head_dim_ckv]
  std::vector<double> lse;  // [num_tokens, num_heads], base 2
};

MlaResult MlaOracle(const MlaCase& c, const MlaInputs& in);

}  // namespace flashinfer::test
