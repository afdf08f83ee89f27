// SPDX-License-Identifier: Apache-2.0
// Merging attention states on CUDA devices: two of them, or many at once.
#pragma once

#include <string>

#include "ops/merge_state.h"
#include "ops/merge_states.h"

namespace flashinfer::cuda {

bool AcceptsMergeState(const MergeStateProblem& problem, std::string* why);
void RunMergeState(const MergeStateParams& params);

bool AcceptsMergeStates(const MergeStatesProblem& problem, std::string* why);
void RunMergeStates(const MergeStatesParams& params);

}  // namespace flashinfer::cuda
