// SPDX-License-Identifier: Apache-2.0
// Exit codes beside those of errors.
#pragma once

namespace flashinfer::cli {

inline constexpr int kExitMismatch = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInterrupted = 130;

}  // namespace flashinfer::cli
