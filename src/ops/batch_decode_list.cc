// SPDX-License-Identifier: Apache-2.0
// The candidates of batch decode, in order.
#include "backends/cpu/attention.h"
#include "backends/cuda/decode_mma.h"
#include "backends/cuda/decode_simt.h"
#include "backends/cuda/prefill_mma.h"
#include "backends/cuda/prefill_simt.h"
#include "cuda/device.h"
#include "ops/batch_decode.h"

namespace flashinfer {

std::span<const Candidate<AttentionProblem, AttentionEntry>> BatchDecodeOp::Candidates() {
  static constexpr auto kCandidates = cpu::AppendCpuCandidates<AttentionProblem, AttentionEntry>(
      {{"cuda.mma",
        cuda::Available,
        cuda::AcceptsDecodeMma,
        {cuda::MakeDecodeMma, cuda::DecodeMmaWorkspaceBytes},
        cuda::DecodeMmaYields},
       {"cuda.simt",
        cuda::Available,
        cuda::AcceptsDecodeSimt,
        {cuda::MakeDecodeSimt, cuda::DecodeSimtWorkspaceBytes}},
       // What decode has no kernel for, as a prefill of one token.
       {"cuda.prefill",
        cuda::Available,
        cuda::AcceptsPrefillMma,
        {cuda::MakePrefillMma, cuda::PrefillMmaWorkspaceBytes}},
       {"cuda.prefill_simt",
        cuda::Available,
        cuda::AcceptsPrefillSimt,
        {cuda::MakePrefillSimt, cuda::PrefillSimtWorkspaceBytes}}},
      cpu::AcceptsAttention, cpu::AttentionEntries<cpu::AttentionKind::kDecode>());
  return kCandidates;
}

}  // namespace flashinfer
