// SPDX-License-Identifier: Apache-2.0
// The user's control of the kernel generator.
#include "flashinfer/jit.h"

#include <span>
#include <utility>

#include "backends/cuda/kernel_families.h"
#include "jit/cache_folder.h"
#include "jit/nvrtc.h"
#include "jit/source.h"
#include "jit/store.h"

namespace flashinfer {
namespace {

CompiledKernel Describe(const jit::Unit& unit, jit::Target target, const jit::Binary& binary) {
  return {.spec = unit.spec,
          .arch = jit::Name(target),
          .origin = {},
          .compiler = binary.compiler,
          .cubin = binary.cubin,
          .log = {},
          .seconds = 0,
          .num_threads = unit.num_threads,
          .dynamic_smem_bytes = unit.smem_bytes,
          .static_smem_bytes = binary.resources.static_smem_bytes,
          .num_registers = binary.resources.num_registers,
          .stack_bytes = binary.resources.stack_bytes,
          .spill_store_bytes = binary.resources.spill_store_bytes,
          .spill_load_bytes = binary.resources.spill_load_bytes};
}

}  // namespace

void SetCacheFolder(std::string_view folder) { jit::SetCacheFolder(std::string(folder)); }
std::string CacheFolder() { return jit::CacheFolder(); }

std::vector<KernelFamilyInfo> KernelFamilies() {
  std::vector<KernelFamilyInfo> families;
  families.reserve(cuda::KernelFamilies().size());
  const std::span<const jit::EmbeddedHeader> headers = jit::EmbeddedHeaders();
  for (const cuda::KernelFamily& family : cuda::KernelFamilies()) {
    size_t source_bytes = 0;
    for (uint16_t index : jit::FindHeader(family.header).closure) {
      source_bytes += headers[index].text.size();
    }
    families.push_back({.name = std::string(family.name),
                        .header = std::string(family.header),
                        .min_arch = family.min_arch,
                        .example = family.default_spec,
                        .source_bytes = static_cast<int64_t>(source_bytes)});
  }
  return families;
}

std::vector<std::string> KernelArchs() {
  std::vector<std::string> names;
  for (jit::Target target : jit::AllTargets()) names.push_back(jit::Name(target));
  return names;
}

std::string KernelSource(std::string_view spec, const AttentionVariant* variant) {
  return cuda::RenderText(spec, variant).source;
}

int32_t KernelMinArch(std::string_view spec) { return cuda::RenderText(spec).min_arch; }

CompiledKernel GetKernel(std::string_view spec, std::string_view arch,
                         const AttentionVariant* variant) {
  const jit::Unit unit = cuda::RenderText(spec, variant);
  const jit::Target target = jit::ParseTarget(arch);
  const jit::Fetched fetched = jit::Fetch(unit, target);
  CompiledKernel kernel = Describe(unit, target, *fetched.binary);
  kernel.origin = jit::Name(fetched.origin);
  kernel.seconds = fetched.seconds;
  return kernel;
}

CompiledKernel CompileKernel(std::string_view spec, std::string_view arch,
                             const AttentionVariant* variant) {
  const jit::Unit unit = cuda::RenderText(spec, variant);
  const jit::Target target = jit::ParseTarget(arch);
  const jit::Compilation compilation = jit::Compile(unit, target);
  CompiledKernel kernel = Describe(unit, target, compilation.binary);
  kernel.origin = jit::Name(jit::Origin::kCompiled);
  kernel.log = compilation.log;
  kernel.seconds = compilation.seconds;
  return kernel;
}

std::vector<CachedKernel> CachedKernels() {
  std::vector<CachedKernel> kernels;
  for (const jit::CacheEntry& entry : jit::KernelCache().List()) {
    kernels.push_back({.spec = entry.spec,
                       .arch = jit::Name(jit::ParseTarget(entry.target)),
                       .compiler = entry.binary.compiler,
                       .path = entry.path,
                       .file_bytes = entry.file_bytes});
  }
  return kernels;
}

int64_t ClearKernelCache() { return jit::KernelCache().Clear(); }

CompilerInfo FindCompiler() {
  CompilerInfo info;
  if (const jit::NvrtcInfo* nvrtc = jit::FindNvrtc(&info.why_not)) {
    info.name = nvrtc->Name();
    info.path = nvrtc->path;
  }
  return info;
}

void SetCompileCancelled(bool (*is_cancelled)()) { jit::SetCancelRequested(is_cancelled); }

}  // namespace flashinfer
