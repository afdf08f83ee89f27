// SPDX-License-Identifier: Apache-2.0
// ldmatrix and stmatrix over the addresses that the warp's lanes give.
#pragma once

#include "kernels/ptx/address.cuh"

namespace flashinfer::kernels::ptx {

enum class Transposed : bool { kNo, kYes };

/// Where element `column` of row `row` lies, of the matrix whose rows' addresses begin with lane
/// `first`.
template <class Part>
char* MatrixElement(const Part& part, uint32_t first, uint32_t row, uint32_t column) {
  const uint32_t at = part(first + row);
  if (at % 16 != 0) software_device::services->Trap("a matrix's row is not aligned to 16 bytes");
  return SharedPointer(at) + 2 * column;
}

template <int kCount, Transposed kTransposed = Transposed::kNo>
inline void ldmatrix(uint32_t (&r)[kCount], uint32_t at) {
  using software_device::Operation;
  const uint32_t lane = software_device::Lane();
  software_device::Together(~0u, Operation::kLdmatrix, at, [&](auto part) {
    for (uint32_t i = 0; i < kCount; ++i) {
      uint16_t pair[2];
      for (uint32_t j = 0; j < 2; ++j) {
        const uint32_t near = lane / 4, along = 2 * (lane % 4) + j;
        const char* from = kTransposed == Transposed::kNo ? MatrixElement(part, 8 * i, near, along)
                                                          : MatrixElement(part, 8 * i, along, near);
        std::memcpy(&pair[j], from, 2);
      }
      r[i] = pair[0] | static_cast<uint32_t>(pair[1]) << 16;
    }
    return 0;
  });
}

template <int kCount, Transposed kTransposed = Transposed::kNo>
inline void ldmatrix(uint32_t (&r)[kCount], const void* row) {
  ldmatrix<kCount, kTransposed>(r, shared_address(row));
}

template <int kCount, Transposed kTransposed = Transposed::kNo>
inline void stmatrix(void* row, const uint32_t (&r)[kCount]) {
  using software_device::Operation;
  const uint32_t lane = software_device::Lane();
  software_device::Together(~0u, Operation::kStmatrix, shared_address(row), [&](auto part) {
    for (uint32_t i = 0; i < kCount; ++i) {
      for (uint32_t j = 0; j < 2; ++j) {
        const uint32_t near = lane / 4, along = 2 * (lane % 4) + j;
        char* to = kTransposed == Transposed::kNo ? MatrixElement(part, 8 * i, near, along)
                                                  : MatrixElement(part, 8 * i, along, near);
        const auto half = static_cast<uint16_t>(r[i] >> (16 * j));
        std::memcpy(to, &half, 2);
      }
    }
    return 0;
  });
}

}  // namespace flashinfer::kernels::ptx
