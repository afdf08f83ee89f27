// SPDX-License-Identifier: Apache-2.0
// Latent attention over cases.
#include "support/checks/mla.h"

#include "core/fields.h"
#include "support/device.h"
#include "support/mismatch.h"

namespace flashinfer::test {

std::string CaseText(std::string_view op, const MlaCase& c) {
  std::string text = FieldsText(op, c.problem);
  for (size_t b = 0; b < c.q_len.size(); ++b) {
    text += fmt::format("{}{}x{}", b == 0 ? " requests=" : ",", c.q_len[b], c.kv_len[b]);
  }
  return text;
}

void RunMla(const MlaCase& c, const MlaInputs& in, Workspace& workspace, std::string_view backend) {
  DeviceCopies on(workspace.device());
  MlaPageTable pages = in.pages();
  pages.indices = on(pages.indices);
  on(in.pool);
  on(in.kpe_pool);
  on(in.scales);
  MlaCache cache = in.cache();
  for (TensorView* part : {&cache.ckv, &cache.kpe, &cache.ckv_scales}) *part = on(*part);
  BatchMla mla(workspace);
  mla.Plan(c.problem, in.qo_indptr_view(), pages, Backend(backend));
  mla.Run(on(in.q_nope), on(in.q_pe), cache, on(in.out), on(in.lse));
  on.Fetch();
}

namespace {

/// Products of pairs of bf16 round probabilities, and scaled numbers, to bf16.
Tolerance OutputTolerance(const MlaCase& c) {
  return ToleranceOf(c.problem.dtype_q == DType::kBF16 ? DType::kBF16 : c.problem.dtype_out, 512);
}

}  // namespace

void CheckMla(const MlaCase& c, CaseRun& run) {
  MlaResult expected;
  run.ForEachCandidate<MlaOp>(c.problem, c, [&](Trial& trial) {
    Workspace workspace(trial.device());
    const MlaInputs in(c, 81);
    if (expected.out.empty()) expected = MlaOracle(c, in);
    RunMla(c, in, workspace, trial.candidate());
    trial.Expect("out", Mismatch(in.out, expected.out, OutputTolerance(c)));
    trial.Expect("lse", Mismatch(in.lse, expected.lse, LseTolerance()));
    const MlaInputs again(c, 81);
    RunMla(c, again, workspace, trial.candidate());
    trial.ExpectSameBytes("out again", in.out, again.out);
    trial.ExpectSameBytes("lse again", in.lse, again.lse);
  });
}

}  // namespace flashinfer::test
