// SPDX-License-Identifier: Apache-2.0
// The only place that reads the environment; every switch of the library is listed here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace flashinfer {

/// All switches, read once at first use.
struct Env {
  int log_level = 0;              ///< FLASHINFER_LOGLEVEL
  std::string log_destination;    ///< FLASHINFER_LOGDEST
  int num_threads = 0;            ///< FLASHINFER_NUM_THREADS, 0 when unset
  std::string cpu_isa;            ///< FLASHINFER_CPU_ISA, empty when unset
  std::string backend;            ///< FLASHINFER_BACKEND, empty when unset
  std::string dump_folder;        ///< FLASHINFER_DUMP_DIR
  double dump_max_size_gb = 0;    ///< FLASHINFER_DUMP_MAX_SIZE_GB
  int64_t dump_max_count = 0;     ///< FLASHINFER_DUMP_MAX_COUNT
  std::string dump_include;       ///< FLASHINFER_DUMP_INCLUDE
  std::string dump_exclude;       ///< FLASHINFER_DUMP_EXCLUDE
  std::string cache_dir;          ///< FLASHINFER_CACHE_DIR, empty when unset
  std::string workspace_base;     ///< FLASHINFER_WORKSPACE_BASE, empty when unset
  int cuda_arch = 0;              ///< FLASHINFER_CUDA_ARCH, 0 when unset
  std::string nvrtc;              ///< FLASHINFER_NVRTC, empty when unset
  std::string cubins_repository;  ///< FLASHINFER_CUBINS_REPOSITORY, empty when unset
  std::string packs;              ///< FLASHINFER_PACKS, empty when unset
  bool disable_jit = false;       ///< FLASHINFER_DISABLE_JIT
  bool jit_verbose = false;       ///< FLASHINFER_JIT_VERBOSE

  // Of the system: empty when unset.
  std::string home;
  std::string path;
  std::string xdg_cache_home;
  std::string cuda_home;  ///< CUDA_HOME, or CUDA_PATH
  std::string virtual_env;
};

const Env& GetEnv();

/// One line of `flashinfer show-config`.
struct EnvSwitch {
  std::string_view name;
  std::string_view meaning;
};
std::span<const EnvSwitch> EnvSwitches();
/// As it was set when the environment was read; empty when unset.
const std::string& EnvValue(const EnvSwitch& env_switch);

/// How often the environment has been read, for the test that run() never does.
int64_t NumEnvReads();

}  // namespace flashinfer
