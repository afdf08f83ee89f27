// SPDX-License-Identifier: Apache-2.0
// `flashinfer compile`: one kernel, what it takes and how long it took.
#include <cstdio>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "disassemble.h"
#include "flashinfer/error.h"
#include "flashinfer/jit.h"
#include "kernel_commands.h"
#include "terminal.h"

namespace flashinfer::cli {
namespace {

std::string Bytes(int32_t count) { return count < 0 ? "unknown" : fmt::format("{} B", count); }

void Print(const CompiledKernel& k) {
  fmt::print("{}\n", k.spec);
  fmt::print("  arch          sm_{}\n", k.arch);
  fmt::print("  time          {:.3f} s ({}, {})\n", k.seconds, k.origin, k.compiler);
  fmt::print("  code          {} B\n", k.cubin.size());
  fmt::print("  threads       {}\n", k.num_threads);
  fmt::print("  registers     {}\n",
             k.num_registers < 0 ? "unknown" : std::to_string(k.num_registers));
  fmt::print("  stack         {}\n", Bytes(k.stack_bytes));
  fmt::print("  spills        {} stored, {} loaded\n", Bytes(k.spill_store_bytes),
             Bytes(k.spill_load_bytes));
  fmt::print("  shared memory {} static, {} dynamic\n", Bytes(k.static_smem_bytes),
             Bytes(k.dynamic_smem_bytes));
  if (!k.log.empty()) fmt::print("{}", k.log);
}

nlohmann::ordered_json Json(const CompiledKernel& k) {
  return {{"spec", k.spec},
          {"arch", k.arch},
          {"origin", k.origin},
          {"compiler", k.compiler},
          {"seconds", k.seconds},
          {"cubin_bytes", k.cubin.size()},
          {"threads", k.num_threads},
          {"registers", k.num_registers},
          {"stack_bytes", k.stack_bytes},
          {"spill_store_bytes", k.spill_store_bytes},
          {"spill_load_bytes", k.spill_load_bytes},
          {"static_smem_bytes", k.static_smem_bytes},
          {"dynamic_smem_bytes", k.dynamic_smem_bytes},
          {"log", k.log}};
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wbe");
  const bool is_written =
      file != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if (file == nullptr || std::fclose(file) != 0 || !is_written) {
    throw Error(ErrorKind::kIo, path + ": cannot be written");
  }
}

}  // namespace

int Compile(const KernelOptions& options) {
  const CompileOptions& o = options.compile;
  std::optional<AttentionVariant> variant;
  if (!o.variant.empty()) variant = AttentionVariant::FromFile(o.variant);
  const AttentionVariant* const code = variant ? &*variant : nullptr;
  if (o.show) {
    fmt::print("{}", KernelSource(o.spec, code));
    return 0;
  }
  CatchInterrupt();
  SetCompileCancelled(Interrupted);
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const std::string& arch : o.archs) {
    try {
      const CompiledKernel kernel =
          o.use_cache ? GetKernel(o.spec, arch, code) : CompileKernel(o.spec, arch, code);
      // Before anything is printed: it may be that there is no disassembler.
      const std::string sass = o.sass ? Disassemble(kernel.cubin) : "";
      if (!o.output.empty()) WriteFile(o.output, kernel.cubin);
      if (options.json) {
        all.push_back(Json(kernel));
        if (o.sass) all.back()["sass"] = sass;
      } else {
        Print(kernel);
        fmt::print("{}", sass);
      }
    } catch (const Error&) {
      if (Interrupted()) return kExitInterrupted;
      throw;
    }
  }
  if (options.json) fmt::print("{}\n", all.dump(2));
  return 0;
}

}  // namespace flashinfer::cli
