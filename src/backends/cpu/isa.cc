// SPDX-License-Identifier: Apache-2.0
// Instruction set detection by cpuid.
#include "backends/cpu/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <array>

#include "core/env.h"
#include "core/log.h"
#include "flashinfer/cpu.h"

namespace flashinfer {
namespace cpu {
namespace {

constexpr std::array<std::string_view, 4> kNames{"scalar", "avx2", "avx512", "avx512_bf16"};

#if defined(__x86_64__)
/// clang 16's __builtin_cpu_supports does not know it.
bool HasF16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

Isa Detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c() &&
                    __builtin_cpu_supports("bmi2");
  if (!avx2) return Isa::kScalar;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512cd");
  if (!avx512) return Isa::kAvx2;
  const bool bf16 = __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16");
  return bf16 ? Isa::kAvx512Bf16 : Isa::kAvx512;
#else
  return Isa::kScalar;
#endif
}

Isa Allowed() {
  const std::string& text = GetEnv().cpu_isa;
  if (text.empty() || text == "amx_bf16") return Isa::kAvx512Bf16;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == text) return static_cast<Isa>(i);
  }
  LogLine("FLASHINFER_CPU_ISA: '" + text +
          "' is not one of scalar, avx2, avx512, avx512_bf16, amx_bf16; ignored");
  return Isa::kAvx512Bf16;
}

Isa Detected() {
  static const Isa isa = Detect();
  return isa;
}

}  // namespace

std::string_view Name(Isa isa) { return kNames[static_cast<size_t>(isa)]; }

Isa BestIsa() {
  static const Isa isa = std::min(Detected(), Allowed());
  return isa;
}

template <Isa kIsa>
bool IsaAvailable(std::string* why) {
  if (kIsa <= BestIsa()) return true;
  if (why == nullptr) return false;
  const bool has_it = kIsa <= Detected();
  return Refuse(why, std::string("needs ") + std::string(Name(kIsa)) +
                         (has_it ? ", FLASHINFER_CPU_ISA allows " : ", this CPU has ") +
                         std::string(Name(BestIsa())));
}
template bool IsaAvailable<Isa::kScalar>(std::string* why);
template bool IsaAvailable<Isa::kAvx2>(std::string* why);
template bool IsaAvailable<Isa::kAvx512>(std::string* why);
template bool IsaAvailable<Isa::kAvx512Bf16>(std::string* why);

}  // namespace cpu

std::string_view CpuIsaName() { return cpu::Name(cpu::BestIsa()); }

}  // namespace flashinfer
