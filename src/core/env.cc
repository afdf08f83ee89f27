// SPDX-License-Identifier: Apache-2.0
// Reads every environment variable of the library, once.
#include "core/env.h"

#include <array>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include <fmt/format.h>

#include "core/check.h"
#include "core/text.h"

namespace flashinfer {
namespace {

constexpr std::array<EnvSwitch, 18> kSwitches{{
    {"FLASHINFER_LOGLEVEL",
     "API log: 0 off, 1 names, 3 arguments, 5 statistics of tensors, "
     "10 dumps of calls"},
    {"FLASHINFER_LOGDEST",
     "API log goes to stdout, stderr (default) or a file; %i is the process id"},
    {"FLASHINFER_NUM_THREADS", "threads of CPU operators, 1 to 256; default: the usable cores"},
    {"FLASHINFER_CPU_ISA",
     "best instruction set to use: scalar, avx2, avx512, avx512_bf16 or amx_bf16"},
    {"FLASHINFER_BACKEND", "backend or candidate for calls that say auto: cpu, cpu.avx2, …"},
    {"FLASHINFER_DUMP_DIR", "folder of the calls dumped at level 10; default: flashinfer_dumps"},
    {"FLASHINFER_DUMP_MAX_SIZE_GB", "dumping ends at so many 10^9 bytes; default: 20"},
    {"FLASHINFER_DUMP_MAX_COUNT", "dumping ends after so many calls; default: 1000"},
    {"FLASHINFER_DUMP_INCLUDE", "dump these operators alone: rmsnorm,batch_*"},
    {"FLASHINFER_DUMP_EXCLUDE", "do not dump these operators"},
    {"FLASHINFER_CACHE_DIR", "folder for compiled kernels and packs; default: ~/.cache/flashinfer"},
    {"FLASHINFER_WORKSPACE_BASE", "folder to use in place of the home folder"},
    {"FLASHINFER_CUDA_ARCH",
     "newest compute capability to use the features of, such as 75, on devices that are newer"},
    {"FLASHINFER_NVRTC", "libnvrtc, or its folder; default: searched for"},
    {"FLASHINFER_PACKS", "packs of kernels, or folders of them, with colons between"},
    {"FLASHINFER_CUBINS_REPOSITORY", "URL of the folder that download-cubin fetches packs from"},
    {"FLASHINFER_DISABLE_JIT", "1: never compile; kernels come from packs and the cache alone"},
    {"FLASHINFER_JIT_VERBOSE", "1: a line for every kernel that is compiled"},
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

/// A number from `least` to `most`. Another text counts as unset, `otherwise`, and gives one line
/// on stderr: the environment must not make a library throw at start-up.
template <class T>
T ReadNumber(const char* name, T least, T most, T otherwise) {
  const std::string text = Read(name);
  if (text.empty()) return otherwise;
  T value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && rest == text.data() + text.size() && value >= least &&
      value <= most) {
    return value;
  }
  // Not the log's, whose level is being read.
  fmt::print(stderr, "flashinfer: {}: is '{}', expected {} to {}; ignored\n", name, text, least,
             most);
  return otherwise;
}

bool ReadFlag(const char* name) { return ReadNumber(name, 0, 1, 0) == 1; }

Env ReadAll() {
  Env env;
  env.log_level = ReadNumber("FLASHINFER_LOGLEVEL", 0, 10, 0);
  env.log_destination = Read("FLASHINFER_LOGDEST");
  env.num_threads = ReadNumber("FLASHINFER_NUM_THREADS", 1, 256, 0);
  env.cpu_isa = Read("FLASHINFER_CPU_ISA");
  env.backend = Read("FLASHINFER_BACKEND");
  env.dump_folder = Read("FLASHINFER_DUMP_DIR");
  if (env.dump_folder.empty()) env.dump_folder = "flashinfer_dumps";
  env.dump_max_size_gb = ReadNumber("FLASHINFER_DUMP_MAX_SIZE_GB", 1e-9, 1e9, 20.0);
  env.dump_max_count = ReadNumber<int64_t>("FLASHINFER_DUMP_MAX_COUNT", 1, 1'000'000'000, 1000);
  env.dump_include = Read("FLASHINFER_DUMP_INCLUDE");
  env.dump_exclude = Read("FLASHINFER_DUMP_EXCLUDE");
  env.cache_dir = Read("FLASHINFER_CACHE_DIR");
  env.workspace_base = Read("FLASHINFER_WORKSPACE_BASE");
  env.cuda_arch = ReadNumber("FLASHINFER_CUDA_ARCH", 10, 999, 0);
  env.nvrtc = Read("FLASHINFER_NVRTC");
  env.cubins_repository = Read("FLASHINFER_CUBINS_REPOSITORY");
  env.packs = Read("FLASHINFER_PACKS");
  env.disable_jit = ReadFlag("FLASHINFER_DISABLE_JIT");
  env.jit_verbose = ReadFlag("FLASHINFER_JIT_VERBOSE");
  env.home = Read("HOME");
  env.path = Read("PATH");
  env.xdg_cache_home = Read("XDG_CACHE_HOME");
  env.cuda_home = Read("CUDA_HOME");
  if (env.cuda_home.empty()) env.cuda_home = Read("CUDA_PATH");
  env.virtual_env = Read("VIRTUAL_ENV");
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
