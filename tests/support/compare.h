// SPDX-License-Identifier: Apache-2.0
// Comparing a tensor with the oracle's values.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "support/host_tensor.h"
#include "support/tolerance.h"

namespace flashinfer::test {

/// Every element near the expected value (row-major order), and nothing written in between.
inline ::testing::AssertionResult AllNear(const HostTensor& actual,
                                          const std::vector<double>& expected,
                                          Tolerance tolerance) {
  const std::vector<double> values = actual.Values();
  if (values.size() != expected.size()) {
    return ::testing::AssertionFailure()
           << values.size() << " values, expected " << expected.size();
  }
  size_t num_bad = 0;
  ::testing::AssertionResult failure = ::testing::AssertionFailure();
  for (size_t i = 0; i < values.size(); ++i) {
    if (Near(values[i], expected[i], tolerance)) continue;
    if (num_bad++ < 5)
      failure << "\n  [" << i << "] is " << values[i] << ", expected " << expected[i];
  }
  if (num_bad > 0) return failure << "\n  " << num_bad << " of " << values.size() << " are off";
  if (!PaddingIsUntouched(actual)) {
    return ::testing::AssertionFailure() << "bytes outside the tensor's elements were written";
  }
  return ::testing::AssertionSuccess();
}

}  // namespace flashinfer::test
