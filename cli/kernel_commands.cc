// SPDX-License-Identifier: Apache-2.0
// The command line of the commands about GPU kernels.
#include "kernel_commands.h"

#include <array>
#include <set>
#include <string_view>

#include <CLI/CLI.hpp>

#include "option_checks.h"

namespace flashinfer::cli {
namespace {

CLI::App& Add(CLI::App& app, const char* name, const char* meaning, KernelOptions& options) {
  CLI::App& command = *app.add_subcommand(name, meaning);
  command.add_flag("--json", options.json, "Print JSON");
  return command;
}

CLI::Option* AddArchs(CLI::App& command, std::vector<std::string>& archs) {
  command.callback([&archs] {
    std::set<std::string> seen;
    std::erase_if(archs, [&](const std::string& arch) { return !seen.insert(arch).second; });
  });
  return command.add_option("--arch", archs, "Architectures, such as 80,90a")
      ->delimiter(',')
      ->type_name("ARCH,...")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void AddCompile(CLI::App& app, KernelOptions& options) {
  CompileOptions& o = options.compile;
  CLI::App& command =
      Add(app, "compile", "Compile one kernel and say what it takes; needs no GPU", options);
  command.add_option("spec", o.spec, "A kernel family and fields; see list-modules")->required();
  AddArchs(command, o.archs)->capture_default_str();
  command.add_option("-o,--output", o.output, "Write the CUBIN")->type_name("FILE");
  command.add_option("--variant", o.variant, "Code of an attention variant; docs/variants.md")
      ->type_name("FILE");
  command.add_flag("--show", o.show, "Print the unit that is compiled, and stop")
      ->excludes(command.get_option("--json"));
  command.add_flag("--sass", o.sass, "Print the machine code, where nvdisasm is found");
  command.add_flag("--cached", o.use_cache, "Take it from packs or the cache, or leave it there");
}

void AddPack(CLI::App& app, KernelOptions& options) {
  CLI::App& pack = *app.add_subcommand("pack", "Kernels that are compiled ahead");
  pack.require_subcommand(1);
  PackBuildOptions& o = options.pack_build;
  CLI::App& build = Add(pack, "build", "Compile recipes, one pack an architecture", options);
  AddArchs(build, o.archs)->required();
  build.add_option("--recipe", o.recipes, "Files of one spec a line")
      ->required()
      ->type_name("FILE");
  build.add_option("-o,--output", o.folder, "Folder of the packs")
      ->type_name("FOLDER")
      ->capture_default_str();
  build.add_option("-j,--jobs", o.jobs, "Processes; as many as cores and memory allow")
      ->check(CLI::Range(1, 1024));
  for (const auto& [name, meaning] :
       {std::pair("list", "Kernels of packs; without a file, of those that are found"),
        std::pair("verify", "Unpack every kernel and compare its SHA-256"),
        std::pair("install", "Verify packs and copy them to where they are found")}) {
    CLI::App& command = Add(pack, name, meaning, options);
    CLI::Option* files = command.add_option("packs", options.packs, "Packs")->type_name("FILE");
    if (std::string_view(name) != "list") files->required();
  }
}

void AddDownload(CLI::App& app, const char* name, const char* meaning, KernelOptions& options) {
  DownloadOptions& o = options.download;
  CLI::App& command = Add(app, name, meaning, options);
  command
      .add_option("--url", o.url,
                  "Folder with manifest.txt, http, https or file; FLASHINFER_CUBINS_REPOSITORY")
      ->type_name("URL");
  AddArchs(command, o.archs);
  command.add_option("--timeout", o.timeout_seconds, "Seconds without a byte until it gives up")
      ->check(CheckMoreThanZero)
      ->capture_default_str();
}

void AddWheel(CLI::App& app, const char* name, const char* meaning, KernelOptions& options) {
  WheelOptions& o = options.wheel;
  CLI::App& command = Add(app, name, meaning, options);
  command.add_option("packs", o.packs, "Packs; those that are found")->type_name("FILE");
  command.add_option("--python", o.python, "Python to install for")->capture_default_str();
  command.add_flag("--dry-run", o.dry_run, "Say what would be done");
}

struct Row {
  const char* name;
  int (*run)(const KernelOptions&);
};
constexpr std::array kRows{Row{"compile", Compile},
                           Row{"list-modules", ListModules},
                           Row{"module-status", ModuleStatus},
                           Row{"list-cubins", ListCubins},
                           Row{"clear-cache", ClearCache},
                           Row{"clear-cubin", ClearCubin},
                           Row{"download-cubin", DownloadKernels},
                           Row{"download-kernels", DownloadKernels},
                           Row{"install-cubin-wheel", InstallCubinWheel},
                           Row{"install-jit-cache-wheel", InstallJitCacheWheel},
                           Row{"collect-env", CollectEnv},
                           Row{"export-compile-commands", ExportCompileCommands}};
constexpr std::array kPackRows{Row{"build", PackBuild}, Row{"list", PackList},
                               Row{"verify", PackVerify}, Row{"install", PackInstall}};

}  // namespace

void AddKernelCommands(CLI::App& app, KernelOptions& options) {
  AddCompile(app, options);
  AddPack(app, options);
  Add(app, "list-modules", "Kernel families, or one of them in detail", options)
      .add_option("name", options.name, "Family");
  Add(app, "module-status", "How many kernels of each family the cache and packs hold", options)
      .add_option("--filter", options.filter, "all, compiled or not-compiled")
      ->check(CLI::IsMember({"all", "compiled", "not-compiled"}))
      ->capture_default_str();
  AddDownload(app, "download-cubin", "Fetch packs and install those that verify", options);
  AddDownload(app, "download-kernels", "The same as download-cubin", options);
  AddWheel(app, "install-cubin-wheel", "Install packs as the Python package flashinfer_cubin",
           options);
  AddWheel(app, "install-jit-cache-wheel",
           "Install packs as the Python package flashinfer_jit_cache", options);
  Add(app, "list-cubins", "Kernels in the cache", options);
  Add(app, "clear-cache", "Remove the compiled kernels from the cache", options);
  Add(app, "clear-cubin", "Remove installed packs from the cache folder", options);
  Add(app, "collect-env", "What a report of a problem should hold", options);
  Add(app, "export-compile-commands",
      "Let clangd understand device code; runs in the folder of flashinfer's source", options)
      .add_option("path", options.output, "File to write; standard output")
      ->type_name("FILE");
}

bool RunKernelCommand(const CLI::App& app, const KernelOptions& options, int& exit_code) {
  const auto run = [&](const CLI::App& parent, const auto& rows) {
    for (const Row& row : rows) {
      if (!parent.got_subcommand(row.name)) continue;
      exit_code = row.run(options);
      return true;
    }
    return false;
  };
  if (app.got_subcommand("pack")) return run(*app.get_subcommand("pack"), kPackRows);
  return run(app, kRows);
}

}  // namespace flashinfer::cli
