// SPDX-License-Identifier: Apache-2.0
// Clusters of blocks, which share one address space.
#pragma once

#include "kernels/ptx/address.cuh"
#include "kernels/ptx/mbarrier.cuh"

namespace flashinfer::kernels::ptx {

inline uint32_t cluster_ctarank() { return software_device::Self().cluster_rank; }
inline uint32_t cluster_nctarank() { return software_device::Self().cluster_size; }
inline void barrier_cluster_arrive() { software_device::services->ClusterArrive(); }
inline void barrier_cluster_wait() { software_device::services->ClusterWait(); }

inline uint32_t mapa(const void* pointer, uint32_t rank) {
  const auto& self = software_device::Self();
  const auto stride = static_cast<uint32_t>(software_device::kSharedStride);
  return shared_address(pointer) - self.cluster_rank * stride + rank * stride;
}

inline uint32_t ld_shared_cluster(uint32_t address) {
  uint32_t value;
  std::memcpy(&value, SharedPointer(address), sizeof(value));
  return value;
}
inline uint4 ld_shared_cluster_v4(uint32_t address) {
  uint4 value;
  std::memcpy(&value, SharedPointer(address), sizeof(value));
  return value;
}
inline void st_shared_cluster(uint32_t address, uint32_t value) {
  std::memcpy(SharedPointer(address), &value, sizeof(value));
}
inline uint32_t atom_add_shared_cluster(uint32_t address, uint32_t value) {
  const uint32_t before = ld_shared_cluster(address);
  st_shared_cluster(address, before + value);
  return before;
}

/// At once; the barrier is told all the same.
template <class T>
inline void StoreAndTell(uint32_t address, const T& value, uint32_t barrier) {
  std::memcpy(SharedPointer(address), &value, sizeof(value));
  Mbarrier(barrier).TakeBytes(sizeof(value));
}
inline void st_async(uint32_t address, uint32_t value, uint32_t barrier) {
  StoreAndTell(address, value, barrier);
}
inline void st_async_v4(uint32_t address, uint4 value, uint32_t barrier) {
  StoreAndTell(address, value, barrier);
}

}  // namespace flashinfer::kernels::ptx
