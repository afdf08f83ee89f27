// SPDX-License-Identifier: Apache-2.0
// The generator of GPU kernels as a user controls it: cache folder, warm-up, single kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "flashinfer/attention/variant.h"
#include "flashinfer/error.h"
#include "flashinfer/export.h"

namespace flashinfer {

/// Kernels are compiled when first needed, by NVIDIA's run-time compiler, and kept in a folder.
/// Nothing here needs a GPU.
///
/// Moves the cache; empty: back to FLASHINFER_CACHE_DIR and its defaults.
FLASHINFER_API void SetCacheFolder(std::string_view folder);
FLASHINFER_API std::string CacheFolder();

/// A kernel is in no pack and not in the cache, and nothing here can compile it, or must not. Its
/// kind is kUnsupported.
class FLASHINFER_API MissingKernelError : public Error {
 public:
  explicit MissingKernelError(const std::string& message)
      : Error(ErrorKind::kUnsupported, message) {}
};

/// One kind of kernel; a spec is its name and `field=value` words.
struct KernelFamilyInfo {
  std::string name;    ///< `norm.simt`
  std::string header;  ///< that holds the device code
  int32_t min_arch;    ///< the lowest compute capability of any of its specs, 75
  std::string example;
  int64_t source_bytes;  ///< of all its headers: what takes long to compile has many
};
FLASHINFER_API std::vector<KernelFamilyInfo> KernelFamilies();

/// The architectures that kernels are compiled for: `75`, …, `90a`, …
FLASHINFER_API std::vector<std::string> KernelArchs();

/// The unit that is compiled for a spec. Throws kInvalidArgument when the spec names no family or
/// a field that it has not.
/// A user's variant is compiled into kernels of the families decode.simt, decode.mma and
/// prefill.mma; null: none.
FLASHINFER_API std::string KernelSource(std::string_view spec,
                                        const AttentionVariant* variant = nullptr);

/// The lowest compute capability that a spec compiles for, 80. Throws as KernelSource() does.
FLASHINFER_API int32_t KernelMinArch(std::string_view spec);

/// A compiled kernel. Counts are the assembler's, -1 where it said nothing.
struct CompiledKernel {
  std::string spec;      ///< with every field
  std::string arch;      ///< `90a`
  std::string origin;    ///< `memory`, `pack`, `disk` or `compiled`
  std::string compiler;  ///< `nvrtc-13.0`
  std::string cubin;
  std::string log;     ///< warnings
  double seconds = 0;  ///< that it took to get it
  int32_t num_threads = 0;
  int32_t dynamic_smem_bytes = 0;
  int32_t static_smem_bytes = -1;
  int32_t num_registers = -1;
  int32_t stack_bytes = -1;
  int32_t spill_store_bytes = -1;
  int32_t spill_load_bytes = -1;
};

/// Gets the kernel of a spec for an architecture: from packs, from the cache, or compiled and then
/// kept there. Throws kCompile when it does not compile, kUnsupported when nothing here can
/// compile it.
FLASHINFER_API CompiledKernel GetKernel(std::string_view spec, std::string_view arch,
                                        const AttentionVariant* variant = nullptr);

/// Compiles it in any case, and keeps nothing.
FLASHINFER_API CompiledKernel CompileKernel(std::string_view spec, std::string_view arch,
                                            const AttentionVariant* variant = nullptr);

/// A kernel in the cache folder.
struct CachedKernel {
  std::string spec;
  std::string arch;
  std::string compiler;
  std::string path;
  size_t file_bytes = 0;
};
FLASHINFER_API std::vector<CachedKernel> CachedKernels();

/// Removes the compiled kernels from the cache folder, with what a killed process left there;
/// returns how many files. What this process has in memory stays.
FLASHINFER_API int64_t ClearKernelCache();

/// NVIDIA's run-time compiler as it was found.
struct CompilerInfo {
  std::string name;  ///< `nvrtc-13.0`; empty when there is none
  std::string path;
  std::string why_not;  ///< and where it was looked for
};
FLASHINFER_API CompilerInfo FindCompiler();

/// Asked now and then while a kernel compiles; answering true ends the compilation with kCompile.
/// Null: never asked.
FLASHINFER_API void SetCompileCancelled(bool (*is_cancelled)());

}  // namespace flashinfer
