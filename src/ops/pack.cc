// SPDX-License-Identifier: Apache-2.0
// The user's control of packs.
#include "flashinfer/pack.h"

#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>

#include "backends/cuda/kernel_families.h"
#include "core/check.h"
#include "core/env.h"
#include "jit/cache_folder.h"
#include "jit/file.h"
#include "jit/pack.h"
#include "jit/pack_search.h"

namespace flashinfer {
namespace {

/// Whether a kernel's digest is the one that its spec has in this library.
bool IsCurrent(const jit::PackItem& item, jit::Target target) {
  try {
    return jit::Digest(cuda::RenderText(item.spec), target) == item.digest;
  } catch (const Error&) {
    return false;
  }
}

[[noreturn]] void ThrowIo(const std::string& path, std::string_view what, int error) {
  throw Error(ErrorKind::kIo,
              fmt::format("{}: {}: {}", path, what, std::generic_category().message(error)));
}

}  // namespace

PackInfo ReadPack(std::string_view path) {
  const std::shared_ptr<const jit::Pack> pack = jit::Pack::Open(std::string(path));
  const jit::Target target = jit::ParseTarget(pack->target());
  PackInfo info{.path = std::string(path),
                .arch = jit::Name(target),
                .compiler = std::string(pack->compiler()),
                .file_bytes = pack->file_bytes(),
                .entries = {}};
  info.entries.reserve(pack->items().size());
  for (const jit::PackItem& item : pack->items()) {
    info.entries.push_back({.spec = std::string(item.spec),
                            .digest = std::string(item.digest),
                            .sha256 = std::string(item.sha256),
                            .cubin_bytes = item.cubin_bytes,
                            .packed_bytes = item.packed_bytes,
                            .num_registers = item.resources.num_registers,
                            .spill_store_bytes = item.resources.spill_store_bytes,
                            .is_current = IsCurrent(item, target)});
  }
  return info;
}

void VerifyPack(std::string_view path) {
  const std::shared_ptr<const jit::Pack> pack = jit::Pack::Open(std::string(path));
  for (const jit::PackItem& item : pack->items()) pack->Unpack(item);
}

std::string WritePack(std::string_view folder, std::span<const CompiledKernel> kernels) {
  FLASHINFER_CHECK(!kernels.empty(), "kernels: is empty, a pack needs one or more");
  const jit::Target target = jit::ParseTarget(kernels.front().arch);
  std::vector<jit::PackedKernel> packed;
  packed.reserve(kernels.size());
  for (const CompiledKernel& kernel : kernels) {
    FLASHINFER_CHECK(kernel.arch == kernels.front().arch,
                     "kernels: are for sm_{} and sm_{}, a pack is for one", kernels.front().arch,
                     kernel.arch);
    const jit::Unit unit = cuda::RenderText(kernel.spec);
    packed.push_back({.digest = jit::Digest(unit, target),
                      .spec = unit.spec,
                      .binary = {.cubin = kernel.cubin,
                                 .resources = {.num_registers = kernel.num_registers,
                                               .stack_bytes = kernel.stack_bytes,
                                               .spill_store_bytes = kernel.spill_store_bytes,
                                               .spill_load_bytes = kernel.spill_load_bytes,
                                               .static_smem_bytes = kernel.static_smem_bytes},
                                 .compiler = kernel.compiler}});
  }
  const std::string at(folder);
  if (!jit::MakeFolders(at)) ThrowIo(at, "cannot be made", errno);
  std::string path = fmt::format("{}/{}", folder, jit::PackFileName(target));
  jit::WritePack(path, target, std::move(packed));
  return path;
}

std::string InstallPack(std::string_view path) {
  VerifyPack(path);
  const std::string from(path);
  const std::optional<std::string> bytes = jit::ReadFile(from);
  if (!bytes) ThrowIo(from, "cannot be read", errno);
  const std::string folder = jit::PackFolder();
  if (folder.empty()) throw Error(ErrorKind::kIo, "cache folder: there is none to install to");
  std::string to = fmt::format("{}/{}", folder, std::filesystem::path(path).filename().string());
  if (!jit::MakeFolders(folder) || !jit::WriteFileAside(to, *bytes)) {
    ThrowIo(to, "cannot be written", errno);
  }
  return to;
}

void AddPack(std::string_view path) { jit::AddPackPath(std::string(path)); }

std::string InstalledPackFolder() { return jit::PackFolder(); }
std::string PackRepository() { return GetEnv().cubins_repository; }

std::vector<std::string> FindPacks() {
  std::vector<std::string> paths;
  for (jit::Target target : jit::AllTargets()) {
    for (const std::shared_ptr<const jit::Pack>& pack : jit::Packs(target)) {
      paths.push_back(pack->path());
    }
  }
  return paths;
}

}  // namespace flashinfer
