// SPDX-License-Identifier: Apache-2.0
// Makes tasks of a planned batch: where each piece's tensors, masks and scales begin.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/attention.h"

namespace flashinfer::cpu {

class AttentionTasks {
 public:
  /// Keeps what TaskOf() needs of the tables, which may go. `problem.sm_scale` is set.
  void Plan(const AttentionProblem& problem, const AttentionTables& tables, AttentionKind kind,
            int32_t heads_per_piece);

  /// `part`: which heads_per_piece of the KV heads. Rows, keys, scratch and partial result are left
  /// to the caller.
  AttentionTask TaskOf(const AttentionTensors& tensors, int32_t request, int32_t part) const;

 private:
  struct Request {
    int64_t q_begin;
    int64_t kv_begin;
    int64_t position;
    AttentionMaskRows mask;
  };

  void PlanPositions();
  void SetKeys(const PagedKvCache& cache, const Request& request, int64_t kv_head,
               AttentionTask& task) const;
  void SetExtras(const AttentionExtras& extras, const Request& request, int64_t kv_head,
                 AttentionTask& task) const;

  AttentionProblem problem_;
  AttentionKind kind_ = AttentionKind::kPrefill;
  int32_t heads_per_piece_ = 1;
  std::vector<Request> requests_;
  std::vector<float> slopes_;
  std::vector<double> turns_per_position_;
  const int32_t* pages_ = nullptr;
  int64_t pages_stride_ = 1;
};

}  // namespace flashinfer::cpu
