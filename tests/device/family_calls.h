// SPDX-License-Identifier: Apache-2.0
// One call of every family of kernels on a CUDA device, to look at how calls behave: that they are
// right, the operators' cases show.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support/device.h"
#include "support/host_tensor.h"

namespace flashinfer::test {

struct FamilyCall {
  std::string name;
  /// Other contents of the same tensors, lengths and positions of tokens included; where there is a
  /// plan, it is made anew.
  std::function<void(uint64_t seed, Stream stream)> prepare;
  std::function<void(Stream stream)> run;
  std::vector<HostTensor*> outputs;
  std::shared_ptr<DeviceCopies> on;
};

/// All of them; PlannedCalls() and TokenCalls() are parts.
std::vector<FamilyCall> FamilyCalls(Device device);
std::vector<FamilyCall> PlannedCalls(Device device);
std::vector<FamilyCall> TokenCalls(Device device);

}  // namespace flashinfer::test
