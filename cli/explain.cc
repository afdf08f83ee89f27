// SPDX-License-Identifier: Apache-2.0
// `flashinfer explain`: what the library would do, and why.
#include <fmt/format.h>

#include "commands.h"
#include "flashinfer/backend.h"
#include "flashinfer/error.h"

namespace flashinfer::cli {

int Explain(const ExplainOptions& options) {
  if (options.matrix) {
    fmt::print("{}", SupportMatrix());
    return 0;
  }
  const Explanation explanation = flashinfer::Explain(options.problem);
  fmt::print("{}", Text(explanation));
  if (explanation.chosen() == nullptr) {
    throw Error(ErrorKind::kUnsupported, "no backend here takes the problem");
  }
  return 0;
}

}  // namespace flashinfer::cli
