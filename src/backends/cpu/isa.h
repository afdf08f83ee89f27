// SPDX-License-Identifier: Apache-2.0
// The instruction sets that CPU kernels are compiled for, and which of them may run here.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "dispatch/candidate.h"

/// Applies `macro(Isa enumerator, namespace)` to every instruction set, best first.
#define FLASHINFER_FOR_EACH_ISA(macro) \
  macro(kAvx512Bf16, avx512_bf16) macro(kAvx512, avx512) macro(kAvx2, avx2) macro(kScalar, scalar)

namespace flashinfer::cpu {

/// In rising order: each includes the ones before.
enum class Isa {
  kScalar,      ///< what every x86-64 has, or another architecture's compiler makes
  kAvx2,        ///< AVX2, FMA, F16C, BMI2: Haswell, Zen
  kAvx512,      ///< and AVX-512 F, BW, DQ, VL, CD: Skylake-X
  kAvx512Bf16,  ///< and AVX-512 VNNI and BF16: Cooper Lake, Zen 4
};

std::string_view Name(Isa isa);

/// The best one that the CPU has and FLASHINFER_CPU_ISA allows.
Isa BestIsa();

/// For Candidate::available.
template <Isa kIsa>
bool IsaAvailable(std::string* why);
extern template bool IsaAvailable<Isa::kScalar>(std::string* why);
extern template bool IsaAvailable<Isa::kAvx2>(std::string* why);
extern template bool IsaAvailable<Isa::kAvx512>(std::string* why);
extern template bool IsaAvailable<Isa::kAvx512Bf16>(std::string* why);

/// The four candidates of an operator whose CPU kernels take the same problems on every
/// instruction set, best first. `entries` in the order of FLASHINFER_FOR_EACH_ISA.
template <class Problem, class Entry>
constexpr std::array<Candidate<Problem, Entry>, 4> CpuCandidates(
    bool (*accepts)(const Problem&, std::string*), const std::array<Entry, 4>& entries) {
  return {{{"cpu.avx512_bf16", IsaAvailable<Isa::kAvx512Bf16>, accepts, entries[0]},
           {"cpu.avx512", IsaAvailable<Isa::kAvx512>, accepts, entries[1]},
           {"cpu.avx2", IsaAvailable<Isa::kAvx2>, accepts, entries[2]},
           {"cpu.scalar", IsaAvailable<Isa::kScalar>, accepts, entries[3]}}};
}

/// The same after `first`, the candidates of other backends.
template <class Problem, class Entry, size_t kNumFirst>
constexpr std::array<Candidate<Problem, Entry>, kNumFirst + 4> AppendCpuCandidates(
    const Candidate<Problem, Entry> (&first)[kNumFirst],
    bool (*accepts)(const Problem&, std::string*), const std::array<Entry, 4>& entries) {
  std::array<Candidate<Problem, Entry>, kNumFirst + 4> all{};
  for (size_t i = 0; i < kNumFirst; ++i) all[i] = first[i];
  const auto cpu = CpuCandidates<Problem, Entry>(accepts, entries);
  for (size_t i = 0; i < 4; ++i) all[kNumFirst + i] = cpu[i];
  return all;
}

}  // namespace flashinfer::cpu
