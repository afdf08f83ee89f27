// SPDX-License-Identifier: Apache-2.0
// Detection of AMX, and leave to use it.
#include "backends/cpu/amx.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "core/env.h"

namespace flashinfer::cpu {
namespace {

#if defined(__x86_64__) && defined(__linux__)

bool CpuHasTiles() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kAmxBf16 = 1u << 22;
  constexpr unsigned kAmxTile = 1u << 24;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & kAmxBf16) != 0 &&
         (edx & kAmxTile) != 0;
}

/// Tiles are state that the kernel saves only for processes which ask for them.
bool AskKernel() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

#else
bool CpuHasTiles() { return false; }
bool AskKernel() { return false; }
#endif

}  // namespace

bool AmxAvailable(std::string* why) {
  if (!amx_bf16::kHasTiles) return Refuse(why, "this build's compiler knows no AMX");
  static const bool has_tiles = CpuHasTiles();
  if (!has_tiles) return Refuse(why, "needs amx_bf16, this CPU has none");
  const std::string& allowed = GetEnv().cpu_isa;
  if (BestIsa() != Isa::kAvx512Bf16 || (!allowed.empty() && allowed != "amx_bf16")) {
    return Refuse(why, "needs amx_bf16, FLASHINFER_CPU_ISA allows " + allowed);
  }
  static const bool may_use_them = AskKernel();
  return may_use_them || Refuse(why, "the kernel gives this process no tiles");
}

}  // namespace flashinfer::cpu
