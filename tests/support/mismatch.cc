// SPDX-License-Identifier: Apache-2.0
// The words of a comparison.
#include "support/mismatch.h"

#include <fmt/format.h>

namespace flashinfer::test {

std::string Mismatch(const HostTensor& actual, const std::vector<double>& expected,
                     Tolerance tolerance) {
  const std::vector<double> values = actual.Values();
  if (values.size() != expected.size()) {
    return fmt::format("{} values, expected {}", values.size(), expected.size());
  }
  size_t num_bad = 0;
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    if (Near(values[i], expected[i], tolerance)) continue;
    if (num_bad++ < 5) text += fmt::format("[{}] is {}, expected {}\n", i, values[i], expected[i]);
  }
  if (num_bad > 0) return text + fmt::format("{} of {} are off", num_bad, values.size());
  return PaddingIsUntouched(actual) ? "" : "bytes outside the tensor's elements were written";
}

}  // namespace flashinfer::test
