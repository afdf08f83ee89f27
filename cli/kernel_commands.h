// SPDX-License-Identifier: Apache-2.0
// The commands about GPU kernels: compiling, caching, packing and fetching them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace flashinfer::cli {

struct CompileOptions {
  std::string spec;
  std::vector<std::string> archs{"90a"};
  std::string output;   ///< of the CUBIN; empty: nowhere
  std::string variant;  ///< file of an attention variant; empty: none
  bool show = false;
  bool sass = false;
  bool use_cache = false;
};

struct PackBuildOptions {
  std::vector<std::string> archs;
  std::vector<std::string> recipes;
  std::string folder = ".";
  int jobs = 0;  ///< 0: as many as cores and memory allow
};

struct DownloadOptions {
  std::string url;                 ///< empty: the environment's
  std::vector<std::string> archs;  ///< empty: all
  int timeout_seconds = 30;        ///< without a byte
};

struct WheelOptions {
  std::vector<std::string> packs;  ///< empty: those that are found
  std::string python = "python3";
  bool dry_run = false;
};

/// Everything that these commands can be told.
struct KernelOptions {
  CompileOptions compile;
  PackBuildOptions pack_build;
  DownloadOptions download;
  WheelOptions wheel;
  std::vector<std::string> packs;  ///< of `pack list`, `verify`, `install`
  std::string name;                ///< of `list-modules`
  std::string filter = "all";      ///< of `module-status`
  std::string output;              ///< of `export-compile-commands`
  bool json = false;
};

/// Adds the commands; the options that they fill must outlive the parsing.
void AddKernelCommands(CLI::App& app, KernelOptions& options);

/// Runs the command of these that was given, into `exit_code`; false when it was none of them.
bool RunKernelCommand(const CLI::App& app, const KernelOptions& options, int& exit_code);

// The commands. Each returns the exit code of a success, kExitInterrupted after Ctrl-C, and throws
// Error.
int Compile(const KernelOptions& options);
int PackBuild(const KernelOptions& options);
int PackList(const KernelOptions& options);
int PackVerify(const KernelOptions& options);
int PackInstall(const KernelOptions& options);
int ListModules(const KernelOptions& options);
int ModuleStatus(const KernelOptions& options);
int ListCubins(const KernelOptions& options);
int ClearCache(const KernelOptions& options);
int ClearCubin(const KernelOptions& options);
int DownloadKernels(const KernelOptions& options);
int InstallCubinWheel(const KernelOptions& options);
int InstallJitCacheWheel(const KernelOptions& options);
int CollectEnv(const KernelOptions& options);
int ExportCompileCommands(const KernelOptions& options);

}  // namespace flashinfer::cli
