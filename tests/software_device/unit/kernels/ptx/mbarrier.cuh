// SPDX-License-Identifier: Apache-2.0
// mbarrier: arrivals and bytes that are still awaited, and the parity of the phase.
#pragma once

#include "kernels/ptx/address.cuh"

namespace flashinfer::kernels::ptx {

/// What the 64 bits of a barrier hold.
struct MbarrierState {
  uint16_t num_arrivals;
  uint16_t num_pending;
  /// Announced bytes that have not come, with the parity above them.
  int32_t bytes : 31;
  uint32_t parity : 1;
};
static_assert(sizeof(MbarrierState) == 8);

/// The barrier at a shared address.
class Mbarrier {
 public:
  explicit Mbarrier(uint32_t address) : at_(SharedPointer(address)) {
    std::memcpy(&s_, at_, sizeof(s_));
  }
  void Init(uint32_t num_arrivals) {
    s_ = {static_cast<uint16_t>(num_arrivals), static_cast<uint16_t>(num_arrivals), 0, 0};
    Store();
  }
  void Arrive() {
    --s_.num_pending;
    EndPhaseIfComplete();
  }
  void Expect(uint32_t bytes) {
    s_.bytes += static_cast<int32_t>(bytes);
    Store();
  }
  void TakeBytes(uint32_t bytes) {
    s_.bytes -= static_cast<int32_t>(bytes);
    EndPhaseIfComplete();
  }
  bool HasEnded(uint32_t parity) const { return s_.parity != parity; }

 private:
  void EndPhaseIfComplete() {
    if (s_.num_pending == 0 && s_.bytes == 0) {
      s_.num_pending = s_.num_arrivals;
      s_.parity ^= 1;
    }
    Store();
  }
  void Store() { std::memcpy(at_, &s_, sizeof(s_)); }

  char* at_;
  MbarrierState s_;
};

inline Mbarrier MbarrierAt(const uint64_t* barrier) { return Mbarrier(shared_address(barrier)); }

inline void mbarrier_init(uint64_t* barrier, uint32_t num_arrivals) {
  MbarrierAt(barrier).Init(num_arrivals);
}
inline void mbarrier_init_fence() {}
inline void mbarrier_inval(uint64_t*) {}
inline void mbarrier_arrive(uint64_t* barrier) { MbarrierAt(barrier).Arrive(); }
inline void mbarrier_arrive_expect_tx(uint64_t* barrier, uint32_t bytes) {
  MbarrierAt(barrier).Expect(bytes);
  MbarrierAt(barrier).Arrive();
}
inline void mbarrier_expect_tx(uint64_t* barrier, uint32_t bytes) {
  MbarrierAt(barrier).Expect(bytes);
}
inline void mbarrier_arrive_cluster(uint64_t* barrier, uint32_t rank) {
  const auto stride = static_cast<uint32_t>(software_device::kSharedStride);
  const uint32_t own = software_device::Self().cluster_rank;
  Mbarrier(shared_address(barrier) - own * stride + rank * stride).Arrive();
}
/// Lets the others run.
inline bool mbarrier_try_wait_parity(uint64_t* barrier, uint32_t parity) {
  if (MbarrierAt(barrier).HasEnded(parity)) return true;
  software_device::services->Yield();
  return MbarrierAt(barrier).HasEnded(parity);
}
inline void mbarrier_wait_parity(uint64_t* barrier, uint32_t parity) {
  while (!mbarrier_try_wait_parity(barrier, parity)) {
  }
}
/// The copies are made now.
inline void cp_async_mbarrier_arrive_noinc(uint64_t* barrier) {
  software_device::services->CommitGroup();
  software_device::services->WaitGroup(0);
  MbarrierAt(barrier).Arrive();
}

}  // namespace flashinfer::kernels::ptx
