// SPDX-License-Identifier: Apache-2.0
// A compiled kernel, as it goes through memory, disk and packs.
#pragma once

#include <cstdint>
#include <string>

namespace flashinfer::jit {

/// What the assembler reports of a kernel; -1 where it said nothing.
struct Resources {
  int32_t num_registers = -1;      ///< of a thread
  int32_t stack_bytes = -1;        ///< of a thread
  int32_t spill_store_bytes = -1;  ///< of a thread, all sites
  int32_t spill_load_bytes = -1;
  int32_t static_smem_bytes = -1;  ///< of a block, besides what a launch asks for
  friend bool operator==(const Resources&, const Resources&) = default;
};

struct Binary {
  std::string cubin;
  Resources resources;
  std::string compiler;  ///< `nvrtc-13.0`
};

}  // namespace flashinfer::jit
