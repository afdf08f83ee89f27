// SPDX-License-Identifier: Apache-2.0
// `flashinfer pack build`: recipes to packs, without a GPU.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "compile_workers.h"
#include "flashinfer/error.h"
#include "flashinfer/pack.h"
#include "kernel_commands.h"
#include "session.h"
#include "sha256.h"
#include "terminal.h"

namespace flashinfer::cli {
namespace {

/// The specs of a recipe: one a line; what follows # is a comment.
void ReadRecipe(const std::string& path, std::vector<std::string>& specs) {
  std::istringstream file(ReadTextFile(path));
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    line = line.substr(0, line.find('#'));
    line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
    if (line.empty()) continue;
    try {
      KernelSource(line);
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("{}:{}: {}", path, number, error.what()));
    }
    if (std::find(specs.begin(), specs.end(), line) == specs.end()) specs.push_back(line);
  }
}

/// In the form that sha256sum checks, for whoever downloads the folder.
void WriteManifest(const std::string& folder, const std::vector<std::string>& paths) {
  std::string text;
  for (const std::string& path : paths) {
    text += fmt::format("{}  {}\n", Sha256OfFile(path), path.substr(path.rfind('/') + 1));
  }
  std::ofstream file(folder + "/manifest.txt", std::ios::binary);
  file << text;
  if (!file.flush()) throw Error(ErrorKind::kIo, folder + "/manifest.txt: cannot be written");
}

/// How long kernels of a family take to compile, beside those of others.
int64_t WeightOf(const std::string& spec) {
  static const std::vector<KernelFamilyInfo> families = KernelFamilies();
  const std::string name = spec.substr(0, spec.find(' '));
  const auto family = std::find_if(families.begin(), families.end(),
                                   [&](const KernelFamilyInfo& f) { return f.name == name; });
  return family == families.end() ? 0 : family->source_bytes;
}

std::vector<CompileJob> Jobs(const PackBuildOptions& options) {
  std::vector<std::string> specs;
  for (const std::string& recipe : options.recipes) ReadRecipe(recipe, specs);
  if (specs.empty()) throw Error(ErrorKind::kInvalidArgument, "recipe: holds no spec");
  std::vector<CompileJob> jobs;
  jobs.reserve(specs.size() * options.archs.size());
  for (const std::string& arch : options.archs) {
    int32_t number = 0;  // of sm_90a and 90a alike; what is none is refused where it is compiled
    const size_t digits = arch.starts_with("sm_") ? 3 : 0;
    std::from_chars(arch.data() + digits, arch.data() + arch.size(), number);
    for (const std::string& spec : specs) {
      if (number == 0 || KernelMinArch(spec) <= number)
        jobs.push_back({spec, arch, WeightOf(spec)});
    }
  }
  return jobs;
}

}  // namespace

int PackBuild(const KernelOptions& options) {
  const PackBuildOptions& o = options.pack_build;
  const auto start = std::chrono::steady_clock::now();
  CatchInterrupt();
  const std::vector<CompileJob> jobs = Jobs(o);
  std::vector<CompiledKernel> kernels;
  try {
    ProgressBar bar(static_cast<int64_t>(jobs.size()));
    kernels = CompileAll(jobs, o.jobs > 0 ? o.jobs : UsableWorkers(),
                         [&](size_t done, const CompileJob& job) {
                           bar.Show(static_cast<int64_t>(done), "sm_" + job.arch + " " + job.spec);
                         });
  } catch (const Error&) {
    if (Interrupted()) return kExitInterrupted;
    throw;
  }
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::vector<std::string> paths;
  for (auto begin = kernels.begin(); begin != kernels.end();) {
    const auto end = std::find_if(begin, kernels.end(), [&](const CompiledKernel& kernel) {
      return kernel.arch != begin->arch;
    });
    paths.push_back(WritePack(o.folder, {begin, end}));
    const PackInfo pack = ReadPack(paths.back());
    all.push_back(
        {{"path", pack.path}, {"kernels", pack.entries.size()}, {"bytes", pack.file_bytes}});
    if (!options.json) {
      fmt::print("{}: {} kernels, {} B\n", pack.path, pack.entries.size(), pack.file_bytes);
    }
    begin = end;
  }
  WriteManifest(o.folder, paths);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (options.json) {
    fmt::print("{}\n", all.dump(2));
  } else {
    fmt::print("{} kernels in {:.1f} s\n", jobs.size(), seconds);
  }
  return 0;
}

}  // namespace flashinfer::cli
