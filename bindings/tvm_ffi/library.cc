// SPDX-License-Identifier: Apache-2.0
// The library itself for other languages: version, threads, configuration, kernel cache.
#include "bindings/tvm_ffi/call.h"
#include "flashinfer/backend.h"
#include "flashinfer/config.h"
#include "flashinfer/cpu.h"
#include "flashinfer/device.h"
#include "flashinfer/jit.h"
#include "flashinfer/version.h"

namespace flashinfer::bindings {
namespace {

using tvm::ffi::String;

String LibraryVersion() { return Version(); }
String Configuration() { return ConfigText(); }
String Explained(const String& problem) {
  return Text(Explain(std::string_view(problem.data(), problem.size())));
}
void ChangeNumThreads(int64_t num_threads) { SetNumThreads(static_cast<int>(num_threads)); }
/// Of CUDA device `index`.
int64_t Arch(int64_t index) { return ArchOf({DeviceType::kCuda, static_cast<int32_t>(index)}); }
int64_t CurrentNumThreads() { return NumThreads(); }

}  // namespace
}  // namespace flashinfer::bindings

FLASHINFER_EXPORT(version, flashinfer::bindings::LibraryVersion)
FLASHINFER_EXPORT(configuration, flashinfer::bindings::Configuration)
FLASHINFER_EXPORT(explain, flashinfer::bindings::Explained)
FLASHINFER_EXPORT(set_num_threads, flashinfer::bindings::ChangeNumThreads)
FLASHINFER_EXPORT(num_threads, flashinfer::bindings::CurrentNumThreads)
FLASHINFER_EXPORT(arch_of, flashinfer::bindings::Arch)
FLASHINFER_EXPORT(clear_kernel_cache, flashinfer::ClearKernelCache)
