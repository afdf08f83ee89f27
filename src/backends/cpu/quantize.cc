// SPDX-License-Identifier: Apache-2.0
// Quantisation to 8 bits and back on the CPU: what it takes, the scales, and how work is shared.
#include "backends/cpu/quantize.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "backends/cpu/thread_pool.h"
#include "flashinfer/cpu.h"

namespace flashinfer::cpu {
namespace {

/// Elements of a piece: enough work to pay for waking a thread (2 µs against 0.2 ns each), and the
/// most columns at a time of a row with one scale.
constexpr int64_t kElementsPerPiece = 16384;

float LargestOf(DType dtype_q) {
  if (dtype_q == DType::kE4M3) return 448.0f;
  return dtype_q == DType::kE5M2 ? 57344.0f : 127.0f;
}

float ScaleOf(const QuantizeParams& p, float amax) {
  const float scale = std::max(amax / LargestOf(p.dtype_q), p.min_scale);
  if (!p.power_of_two) return scale;
  constexpr uint32_t kMantissa = 0x7fffff;
  return std::bit_cast<float>((std::bit_cast<uint32_t>(scale) + kMantissa) & ~kMantissa);
}

/// Calls `body(span)` for pieces of `size` columns of every row.
template <class Body>
void ForEachSpan(const QuantizeParams& p, int64_t size, const Body& body) {
  if (p.hidden_size == 0) return;
  const int64_t per_row = (p.hidden_size + size - 1) / size;
  const int64_t grain = std::max<int64_t>(1, kElementsPerPiece / std::min(size, p.hidden_size));
  ParallelFor(p.num_rows * per_row, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t column = i % per_row * size;
      body(QuantizeSpan{i / per_row, column, std::min(column + size, p.hidden_size)});
    }
  });
}

float* ScaleAt(const QuantizeParams& p, const QuantizeSpan& span) {
  const int64_t group = p.group_size == 0 ? 0 : span.begin / p.group_size;
  return p.scales + span.row * p.scales_stride_row + group * p.scales_stride_group;
}

/// The largest |x| of all spans that `for_each` hands to threads.
template <class ForEach>
float SharedAmax(const QuantizeParams& p, const QuantizeKernelTable& kernels,
                 const ForEach& for_each) {
  // Floats of one sign have the order of their bits.
  std::atomic<uint32_t> largest{0};
  for_each([&](const QuantizeSpan& span) {
    const auto bits = std::bit_cast<uint32_t>(kernels.amax(p, span));
    uint32_t seen = largest.load(std::memory_order_relaxed);
    while (bits > seen && !largest.compare_exchange_weak(seen, bits, std::memory_order_relaxed)) {
    }
  });
  return std::bit_cast<float>(largest.load(std::memory_order_relaxed));
}

/// Groups one after another, each shared among the threads.
void NarrowLongGroups(const QuantizeParams& p, const QuantizeKernelTable& kernels) {
  for (int64_t row = 0; row < p.num_rows; ++row) {
    for (int64_t begin = 0; begin < p.hidden_size; begin += p.group_size) {
      const QuantizeSpan group{row, begin, std::min(begin + p.group_size, p.hidden_size)};
      const auto for_each = [&](const auto& body) {
        const int64_t num_pieces = (group.end - begin + kElementsPerPiece - 1) / kElementsPerPiece;
        ParallelFor(num_pieces, 1, [&](int64_t first, int64_t last) {
          body(QuantizeSpan{row, begin + first * kElementsPerPiece,
                            std::min(begin + last * kElementsPerPiece, group.end)});
        });
      };
      const float scale = ScaleOf(p, SharedAmax(p, kernels, for_each));
      *ScaleAt(p, group) = scale;
      for_each([&](const QuantizeSpan& span) { kernels.narrow(p, span, scale); });
    }
  }
}

}  // namespace

bool AcceptsQuantize(const QuantizeProblem& problem, std::string* why) {
  if (problem.arch != 0) return Refuse(why, "tensors are on a CUDA device");
  const DType dtype = problem.dtype;
  if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16) {
    return Refuse(why, "dtype must be f32, f16 or bf16");
  }
  const DType dtype_q = problem.dtype_q;
  if (dtype_q != DType::kE4M3 && dtype_q != DType::kE5M2 && dtype_q != DType::kI8) {
    return Refuse(why, "dtype_q must be e4m3, e5m2 or i8");
  }
  return true;
}

void ShareQuantize(const QuantizeParams& p, const QuantizeKernelTable& kernels) {
  const bool per_tensor = p.group_size == 0;
  if (p.dynamic && per_tensor) {
    *p.scales = ScaleOf(p, SharedAmax(p, kernels, [&](const auto& body) {
                          ForEachSpan(p, kElementsPerPiece, body);
                        }));
  }
  if (p.dynamic && !per_tensor) {
    const int64_t num_groups = p.num_rows * ((p.hidden_size + p.group_size - 1) / p.group_size);
    if (num_groups < NumThreads() && p.group_size > kElementsPerPiece) {
      return NarrowLongGroups(p, kernels);
    }
    ForEachSpan(p, p.group_size, [&](const QuantizeSpan& span) {
      float* scale = ScaleAt(p, span);
      *scale = ScaleOf(p, kernels.amax(p, span));
      kernels.narrow(p, span, *scale);
    });
    return;
  }
  const int64_t size = per_tensor ? kElementsPerPiece : p.group_size;
  ForEachSpan(p, size, [&](const QuantizeSpan& span) {
    (p.inverse ? kernels.widen : kernels.narrow)(p, span, *ScaleAt(p, span));
  });
}

}  // namespace flashinfer::cpu
