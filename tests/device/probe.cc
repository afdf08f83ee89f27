// SPDX-License-Identifier: Apache-2.0
// Renders, compiles and launches probes.
#include "device/probe.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "cuda/device.h"
#include "jit/nvrtc.h"
#include "jit/store.h"

namespace flashinfer::probe {
namespace {

const Device kDevice{DeviceType::kCuda, 0};

bool Has(const Probe& probe, int32_t arch) {
  return probe.only_arch != 0 ? probe.only_arch == arch : probe.min_arch <= arch;
}

}  // namespace

jit::Unit Render(const Probe& probe) {
  return {
      .spec = "probe " + probe.function,
      .headers = {probe.header},
      .source = fmt::format("#include \"kernels/portable.h\"\n"
                            "#include \"{}\"\n\n"
                            "using namespace flashinfer;\n"
                            "using namespace flashinfer::kernels;\n"
                            "using namespace flashinfer::probe;\n\n"
                            "static_assert(sizeof(ProbeParams) == {});\n"
                            "extern \"C\" __global__ void __launch_bounds__({}, 1)\n"
                            "flashinfer_kernel(const __grid_constant__ ProbeParams p) {{\n"
                            "  {}(p);\n"
                            "}}\n",
                            probe.header, sizeof(ProbeParams), probe.num_threads, probe.function),
      .num_threads = probe.num_threads,
      .smem_bytes = probe.smem_bytes,
      .min_arch = probe.min_arch};
}

void ExpectCompiles(const std::vector<Probe>& probes) {
  const char* only = std::getenv("FLASHINFER_TEST_DEVICE");
  if (only != nullptr && std::string_view(only) == "cuda") GTEST_SKIP() << "only CUDA devices";
  std::string why;
  if (jit::FindNvrtc(&why) == nullptr) GTEST_SKIP() << why;
  for (const Probe& probe : probes) {
    for (const int32_t arch : {75, 80, 90, 120}) {
      if (!Has(probe, arch)) continue;
      const jit::Compilation compiled = jit::Compile(Render(probe), jit::TargetOf(arch));
      EXPECT_EQ(compiled.log, "") << probe.function << " for " << arch;
      EXPECT_EQ(compiled.binary.resources.spill_store_bytes, 0) << probe.function << " " << arch;
    }
  }
}

std::string WhyNot(const Probe& probe) {
  std::string why;
  if (!cuda::Available(&why) || jit::FindNvrtc(&why) == nullptr) return why;
  const int32_t arch = cuda::ArchOf(kDevice);
  return Has(probe, arch) ? "" : fmt::format("{}: not on SM{}", probe.function, arch);
}

Buffer::Buffer(const void* from, size_t bytes)
    : bytes_(bytes), data_(workspace_.Reserve(bytes > 0 ? bytes : 1)) {
  cuda::CopyToDevice(data_, from, bytes, {kDevice});
}

void Launch(const Probe& probe, const ProbeParams& params, const cuda::LaunchShape& shape) {
  const cuda::Kernel& kernel = jit::Load(Render(probe), cuda::Properties(kDevice));
  cuda::Launch(kernel, shape, params, {kDevice});
  cuda::Synchronize({kDevice});
}

std::mt19937 Random() {
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  return std::mt19937(seed);
}

}  // namespace flashinfer::probe
