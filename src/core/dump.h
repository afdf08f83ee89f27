// SPDX-License-Identifier: Apache-2.0
// Dumps of API calls (FLASHINFER_LOGLEVEL=10), which `flashinfer replay` runs again.
//
// Each call gets a folder of its own in FLASHINFER_DUMP_DIR, named by the process's start, its id,
// the number of the call and the operator:
//
//   20261130T101500_4711_000012_rmsnorm/call.json    operator, values and tensors before the call
//                                       x.bin        elements in row-major order, without gaps
//                                       return.json  what the call wrote; missing when it threw
//                                       returned.out.bin
//
// A tensor of another device is described without its elements.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/log.h"

namespace flashinfer {

/// As the environment gives them.
struct DumpSettings {
  std::string folder;      ///< FLASHINFER_DUMP_DIR
  double max_size_gb = 0;  ///< FLASHINFER_DUMP_MAX_SIZE_GB: 10^9 bytes of tensors in all
  int64_t max_count = 0;   ///< FLASHINFER_DUMP_MAX_COUNT: calls
  std::string include;  ///< FLASHINFER_DUMP_INCLUDE: operators as a shell matches names, by comma
  std::string exclude;  ///< FLASHINFER_DUMP_EXCLUDE
};

/// Writes the call's folder, unless its operator is left out or a limit is reached; the first call
/// over a limit ends dumping with a line in the log. A failing disk is a line in the log, too.
void DumpCall(std::string_view op, std::span<const LogArgument> arguments);

/// Adds what the calling thread's last call of `op` wrote.
void DumpReturn(std::string_view op, std::span<const LogArgument> outputs);

/// Test hook: starts anew, as the environment would.
void SetDumping(const DumpSettings& settings);

}  // namespace flashinfer
