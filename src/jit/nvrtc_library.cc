// SPDX-License-Identifier: Apache-2.0
// Finds and opens libnvrtc.
#include "jit/nvrtc_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "core/env.h"
#include "core/text.h"
#include "jit/python_packages.h"

namespace flashinfer::jit {
namespace {

namespace fs = std::filesystem;

// C++20 and class-type template arguments.
constexpr int kOldestMajor = 12;
constexpr const char* kSonames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};

std::vector<fs::path> SearchedFolders() {
  std::vector<fs::path> folders;
  const std::vector<fs::path> packages = PythonPackageFolders();
  for (const fs::path& folder : packages) {  // where NVIDIA's wheels put the library
    folders.push_back(folder / "nvidia/cu13/lib");
    folders.push_back(folder / "nvidia/cuda_nvrtc/lib");
  }
  const std::string& cuda_home = GetEnv().cuda_home;
  if (!cuda_home.empty()) folders.push_back(fs::path(cuda_home) / "lib64");
  folders.emplace_back("/usr/local/cuda/lib64");
  for (const fs::path& toolkit : FoldersIn("/usr/local", "cuda-")) {
    folders.push_back(toolkit / "lib64");
  }
  return folders;
}

struct Opened {
  NvrtcLibrary library{};
  bool is_usable = false;
  std::string why;
};

template <class Function>
bool Find(void* handle, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(handle, name));
  return function != nullptr;
}

/// Fills the table; false with the reason when the library is of no use.
bool Use(void* handle, const std::string& path, NvrtcLibrary& n, std::string& why) {
  const bool has_all = Find(handle, "nvrtcVersion", n.nvrtcVersion) &&
                       Find(handle, "nvrtcGetErrorString", n.nvrtcGetErrorString) &&
                       Find(handle, "nvrtcCreateProgram", n.nvrtcCreateProgram) &&
                       Find(handle, "nvrtcDestroyProgram", n.nvrtcDestroyProgram) &&
                       Find(handle, "nvrtcCompileProgram", n.nvrtcCompileProgram) &&
                       Find(handle, "nvrtcGetProgramLogSize", n.nvrtcGetProgramLogSize) &&
                       Find(handle, "nvrtcGetProgramLog", n.nvrtcGetProgramLog) &&
                       Find(handle, "nvrtcGetCUBINSize", n.nvrtcGetCUBINSize) &&
                       Find(handle, "nvrtcGetCUBIN", n.nvrtcGetCUBIN) &&
                       Find(handle, "nvrtcGetNumSupportedArchs", n.nvrtcGetNumSupportedArchs) &&
                       Find(handle, "nvrtcGetSupportedArchs", n.nvrtcGetSupportedArchs);
  if (!has_all || n.nvrtcVersion(&n.info.major, &n.info.minor) != 0 ||
      n.info.major < kOldestMajor) {
    why = fmt::format("{} is not libnvrtc of CUDA {} or later", path, kOldestMajor);
    return false;
  }
  Find(handle, "nvrtcSetFlowCallback", n.nvrtcSetFlowCallback);
  Dl_info where{};
  n.info.path =
      dladdr(reinterpret_cast<const void*>(n.nvrtcVersion), &where) != 0 ? where.dli_fname : path;
  int count = 0;
  n.nvrtcGetNumSupportedArchs(&count);
  n.archs.resize(static_cast<size_t>(count));
  n.nvrtcGetSupportedArchs(n.archs.data());
  return true;
}

bool TryOpen(const std::string& path, Opened& opened) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return false;
  opened.is_usable = Use(handle, path, opened.library, opened.why);
  return opened.is_usable;
}

/// FLASHINFER_NVRTC names the file or its folder, and nothing else is tried.
Opened OpenNamed(const std::string& named) {
  Opened opened;
  if (TryOpen(named, opened)) return opened;
  for (const char* soname : kSonames) {
    if (TryOpen(fs::path(named) / soname, opened)) return opened;
  }
  if (opened.why.empty()) {
    opened.why = fmt::format("FLASHINFER_NVRTC: no libnvrtc can be opened at '{}'", named);
  }
  return opened;
}

Opened Open() {
  const std::string& named = GetEnv().nvrtc;
  if (!named.empty()) return OpenNamed(named);
  Opened opened;
  for (const char* soname : kSonames) {
    if (TryOpen(soname, opened)) return opened;
  }
  std::vector<std::string> searched{"the loader's path"};
  for (const fs::path& folder : SearchedFolders()) {
    for (const char* soname : kSonames) {
      if (TryOpen(folder / soname, opened)) return opened;
    }
    searched.push_back(folder.string());
  }
  if (opened.why.empty()) {
    opened.why = fmt::format(
        "no libnvrtc was found (pip install nvidia-cuda-nvrtc has it, or set FLASHINFER_NVRTC); "
        "searched: {}",
        Join(searched));
  }
  return opened;
}

}  // namespace

const NvrtcLibrary* OpenNvrtc(std::string* why) {
  static const Opened& opened = *new Opened(Open());
  if (why != nullptr) *why = opened.why;
  return opened.is_usable ? &opened.library : nullptr;
}

}  // namespace flashinfer::jit
