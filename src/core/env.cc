// SPDX-License-Identifier: Apache-2.0
// Reads every environment variable of the library, once.
#include "core/env.h"

#include <array>
#include <atomic>
#include <charconv>
#include <cstdlib>

#include "core/check.h"
#include "core/text.h"

namespace flashinfer {
namespace {

constexpr std::array<EnvSwitch, 5> kSwitches{{
    {"FLASHINFER_LOGLEVEL", "API log: 0 off, 1 names, 3 arguments, 5 statistics of tensors"},
    {"FLASHINFER_LOGDEST",
     "API log goes to stdout, stderr (default) or a file; %i is the process id"},
    {"FLASHINFER_NUM_THREADS", "threads of CPU operators, 1 to 256; default: the usable cores"},
    {"FLASHINFER_CPU_ISA", "best instruction set to use: scalar, avx2, avx512 or avx512_bf16"},
    {"FLASHINFER_BACKEND", "backend or candidate for calls that say auto: cpu, cpu.avx2, …"},
}};

std::atomic<int64_t> num_reads{0};

/// Of each switch, in the order of the list.
std::array<std::string, kSwitches.size()> values;

std::string Read(const char* name) {
  num_reads.fetch_add(1, std::memory_order_relaxed);
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read once, at first use
  for (size_t i = 0; i < kSwitches.size(); ++i) {
    if (kSwitches[i].name == name && value != nullptr) values[i] = value;
  }
  return value == nullptr ? "" : value;
}

/// An unreadable number counts as unset: the environment must not make a library throw at start-up.
int ReadInt(const char* name) {
  const std::string text = Read(name);
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

Env ReadAll() {
  Env env;
  env.log_level = ReadInt("FLASHINFER_LOGLEVEL");
  env.log_destination = Read("FLASHINFER_LOGDEST");
  env.num_threads = ReadInt("FLASHINFER_NUM_THREADS");
  env.cpu_isa = Read("FLASHINFER_CPU_ISA");
  env.backend = Read("FLASHINFER_BACKEND");
  return env;
}

}  // namespace

const Env& GetEnv() {
  static const Env env = ReadAll();
  return env;
}

std::span<const EnvSwitch> EnvSwitches() { return kSwitches; }

const std::string& EnvValue(const EnvSwitch& env_switch) {
  GetEnv();
  return values[static_cast<size_t>(&env_switch - kSwitches.data())];
}

int64_t NumEnvReads() { return num_reads.load(std::memory_order_relaxed); }

}  // namespace flashinfer
