// SPDX-License-Identifier: Apache-2.0
// Launches do not overlap.
#pragma once

namespace flashinfer::kernels::ptx {

inline void griddepcontrol_wait() {}
inline void griddepcontrol_launch_dependents() {}

}  // namespace flashinfer::kernels::ptx
