// SPDX-License-Identifier: Apache-2.0
// Latent attention through the public object, against the oracle.
#pragma once

#include <string>
#include <string_view>

#include "support/case_run.h"
#include "support/cases/mla.h"

namespace flashinfer::test {

/// `mla dtype_q=f16 … requests=1x300,1x5`: q_len x kv_len of each request.
std::string CaseText(std::string_view op, const MlaCase& c);

void RunMla(const MlaCase& c, const MlaInputs& in, Workspace& workspace,
            std::string_view backend = "auto");

void CheckMla(const MlaCase& c, CaseRun& run);

}  // namespace flashinfer::test
