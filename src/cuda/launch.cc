// SPDX-License-Identifier: Apache-2.0
// Fills the launch configuration.
#include "cuda/launch.h"

#include <array>

#include "core/check.h"

namespace flashinfer::cuda::launch_detail {
namespace {

constexpr int64_t kMaxGridX = (int64_t{1} << 31) - 1;
constexpr int64_t kMaxGridYZ = 65535;

}  // namespace

void Launch(const Kernel& kernel, const LaunchShape& shape, void* params, Stream stream) {
  if (shape.grid_x == 0 || shape.grid_y == 0 || shape.grid_z == 0) return;
  FLASHINFER_CHECK(shape.grid_x > 0 && shape.grid_x <= kMaxGridX && shape.grid_y > 0 &&
                       shape.grid_y <= kMaxGridYZ && shape.grid_z > 0 && shape.grid_z <= kMaxGridYZ,
                   "{}: grid is {} x {} x {}, at most {} x {} x {}", kernel.name, shape.grid_x,
                   shape.grid_y, shape.grid_z, kMaxGridX, kMaxGridYZ, kMaxGridYZ);
  std::array<LaunchAttribute, 2> attributes;
  unsigned num_attributes = 0;
  if (shape.cluster_x > 1) {
    LaunchAttribute& a = attributes[num_attributes++];
    a.id = LaunchAttribute::kClusterSize;
    a.value.cluster = {static_cast<unsigned>(shape.cluster_x), 1, 1};
  }
  if (shape.overlaps_previous && kernel.device->arch >= 90) {
    LaunchAttribute& a = attributes[num_attributes++];
    a.id = LaunchAttribute::kProgrammaticSerialization;
    a.value.flag = 1;
  }
  const LaunchConfig config{.grid_x = static_cast<unsigned>(shape.grid_x),
                            .grid_y = static_cast<unsigned>(shape.grid_y),
                            .grid_z = static_cast<unsigned>(shape.grid_z),
                            .block_x = static_cast<unsigned>(kernel.num_threads),
                            .block_y = 1,
                            .block_z = 1,
                            .smem_bytes = static_cast<unsigned>(kernel.smem_bytes),
                            .stream = static_cast<StreamHandle>(stream.handle),
                            .attributes = attributes.data(),
                            .num_attributes = num_attributes};
  const CurrentDevice current(*kernel.device);
  const Result result = GetDriver().cuLaunchKernelEx(&config, kernel.function, &params, nullptr);
  if (result != kSuccess) [[unlikely]]
    Check(result, fmt::format("cuLaunchKernelEx of {}", kernel.name).c_str());
}

}  // namespace flashinfer::cuda::launch_detail
