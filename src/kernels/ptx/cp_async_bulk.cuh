// SPDX-License-Identifier: Apache-2.0
// cp.async.bulk and cp.async.bulk.tensor: the copy engine of SM90, which one thread starts.
//
// Copies to shared memory end at an mbarrier that was told their bytes. Copies from it are grouped:
// commit, then wait. Addresses in shared memory are aligned to 16 bytes, boxes to 128.
#pragma once

#include "core/tensor_map.h"
#include "kernels/portable.h"
#include "kernels/ptx/address.cuh"

namespace flashinfer::kernels::ptx {

/// Copies `bytes`, a multiple of 16, with an L2 policy of createpolicy.
__device__ __forceinline__ void cp_async_bulk_load(void* to_shared, const void* from,
                                                   uint32_t bytes, uint64_t* barrier,
                                                   uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1], %2, [%3], %4;" ::"r"(shared_address(to_shared)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
      : "memory");
}

__device__ __forceinline__ void cp_async_bulk_store(void* to, const void* from_shared,
                                                    uint32_t bytes, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(to),
      "r"(shared_address(from_shared)), "r"(bytes), "l"(policy)
      : "memory");
}

/// Ends a group of this thread's stores.
__device__ __forceinline__ void cp_async_bulk_commit_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/// Waits until all but kPending groups are written.
template <int kPending>
__device__ __forceinline__ void cp_async_bulk_wait_group() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

/// Waits until the shared memory of all but kPending groups may be used again.
template <int kPending>
__device__ __forceinline__ void cp_async_bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

/// Brings a tensor map, a kernel's parameter, near.
__device__ __forceinline__ void prefetch_tensormap(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// Copies the box at `c`, innermost coordinate first; what lies outside of the tensor becomes 0.
template <int kRank>
__device__ __forceinline__ void cp_async_bulk_tensor_load(void* to_shared, const TensorMap& map,
                                                          const int32_t (&c)[kRank],
                                                          uint64_t* barrier, uint64_t policy) {
  static_assert(kRank >= 1 && kRank <= 5, "tensors have 1 to 5 dimensions");
  const uint32_t to = shared_address(to_shared);
  const uint32_t at = shared_address(barrier);
  if constexpr (kRank == 1) {
    asm volatile(
        "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".L2::cache_hint [%0], [%1, {%2}], [%3], %4;" ::"r"(to),
        "l"(&map), "r"(c[0]), "r"(at), "l"(policy)
        : "memory");
  } else if constexpr (kRank == 2) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
        "l"(&map), "r"(c[0]), "r"(c[1]), "r"(at), "l"(policy)
        : "memory");
  } else if constexpr (kRank == 3) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
        "l"(&map), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(at), "l"(policy)
        : "memory");
  } else if constexpr (kRank == 4) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".L2::cache_hint [%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(to),
        "l"(&map), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(at), "l"(policy)
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".L2::cache_hint [%0], [%1, {%2, %3, %4, %5, %6}], [%7], %8;" ::"r"(to),
        "l"(&map), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4]), "r"(at), "l"(policy)
        : "memory");
  }
}

/// Copies a box to `c`; what lies behind the end of the tensor is left out, but that rows are
/// filled with zeros up to a multiple of 16 bytes. Coordinates are not negative, unlike those of
/// loads: the instruction is illegal then (both seen on an H200, 2026-11). Shared memory was
/// written before a fence_proxy_async_shared().
template <int kRank>
__device__ __forceinline__ void cp_async_bulk_tensor_store(const TensorMap& map,
                                                           const int32_t (&c)[kRank],
                                                           const void* from_shared,
                                                           uint64_t policy) {
  static_assert(kRank >= 1 && kRank <= 5, "tensors have 1 to 5 dimensions");
  const uint32_t from = shared_address(from_shared);
  if constexpr (kRank == 1) {
    asm volatile(
        "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%1}], [%2], "
        "%3;" ::"l"(&map),
        "r"(c[0]), "r"(from), "l"(policy)
        : "memory");
  } else if constexpr (kRank == 2) {
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%1, %2}], "
        "[%3], %4;" ::"l"(&map),
        "r"(c[0]), "r"(c[1]), "r"(from), "l"(policy)
        : "memory");
  } else if constexpr (kRank == 3) {
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%1, %2, %3}], "
        "[%4], %5;" ::"l"(&map),
        "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(from), "l"(policy)
        : "memory");
  } else if constexpr (kRank == 4) {
    asm volatile(
        "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group.L2::cache_hint "
        "[%0, {%1, %2, %3, %4}], [%5], %6;" ::"l"(&map),
        "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(from), "l"(policy)
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group.L2::cache_hint "
        "[%0, {%1, %2, %3, %4, %5}], [%6], %7;" ::"l"(&map),
        "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4]), "r"(from), "l"(policy)
        : "memory");
  }
}

}  // namespace flashinfer::kernels::ptx
