// SPDX-License-Identifier: Apache-2.0
// Attention through the public objects, against the oracle.
#pragma once

#include <string>
#include <string_view>

#include "flashinfer/attention/decode.h"
#include "flashinfer/attention/prefill.h"
#include "support/attention_oracle.h"
#include "support/case_run.h"
#include "support/tolerance.h"

namespace flashinfer::test {

/// `batch_decode dtype_q=f16 … layout=NHD requests=1x300,1x5`: q_len x kv_len of each request.
std::string CaseText(std::string_view op, const AttentionCase& c);

/// The extra inputs of a case on a device.
AttentionExtras ExtrasOn(DeviceCopies& on, const AttentionInputs& in);

void RunDecode(const AttentionCase& c, const AttentionInputs& in, Workspace& workspace,
               std::string_view backend = "auto");
void RunPrefill(const AttentionCase& c, const AttentionInputs& in, Workspace& workspace,
                std::string_view backend = "auto");

/// How far outputs may be off. Where queries and keys are bf16, probabilities may be, too.
Tolerance AttentionTolerance(const AttentionCase& c);
Tolerance AttentionLseTolerance(const AttentionCase& c);

void CheckBatchDecode(const AttentionCase& c, CaseRun& run);
void CheckBatchPrefill(const AttentionCase& c, CaseRun& run);

}  // namespace flashinfer::test
