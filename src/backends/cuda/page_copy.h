// SPDX-License-Identifier: Apache-2.0
// Appending to a paged KV cache, and gathering from it, on CUDA devices.
#pragma once

#include <string>

#include "ops/page_copy.h"

namespace flashinfer::cuda {

bool AcceptsPageCopy(const PageCopyProblem& problem, std::string* why);
void RunPageAppend(const PageCopyParams& params);
void RunPageGather(const PageCopyParams& params);

}  // namespace flashinfer::cuda
