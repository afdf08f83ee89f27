// SPDX-License-Identifier: Apache-2.0
// The machine's bandwidths and arithmetic peaks, measured with tight loops on all threads.
#include <algorithm>
#include <cstring>

#include "backends/cpu/thread_pool.h"
#include "harness.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace flashinfer::bench {
namespace {

/// Keeps a value alive without storing it.
template <class T>
void Consume(T& value) {
  asm volatile("" : : "m"(value) : "memory");
}

void ReadAll(const uint64_t* words, int64_t count) {
  uint64_t sums[8] = {};
  for (int64_t i = 0; i + 8 <= count; i += 8) {
    for (int j = 0; j < 8; ++j) sums[j] += words[i + j];
  }
  Consume(sums);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void CopyAvx2(const uint64_t* from, uint64_t* to, int64_t count) {
  for (int64_t i = 0; i < count; i += 4) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i)));
  }
  _mm_sfence();
}

__attribute__((target("avx512f"))) void CopyAvx512(const uint64_t* from, uint64_t* to,
                                                   int64_t count) {
  for (int64_t i = 0; i < count; i += 8) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), _mm512_loadu_si512(from + i));
  }
  _mm_sfence();
}
#endif

/// `to` is aligned to 64 bytes, `count` a multiple of 8.
void CopyAll(const uint64_t* from, uint64_t* to, int64_t count) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") != 0) return CopyAvx512(from, to, count);
  if (__builtin_cpu_supports("avx2") != 0) return CopyAvx2(from, to, count);
#endif
  std::copy_n(from, count, to);
}

constexpr int64_t kMathRounds = 100000;

/// Makes the compiler take equal values for different ones: else it keeps one chain of all.
template <class T, size_t kCount>
void MakeDistinct(T (&sums)[kCount]) {
  for (T& sum : sums) asm volatile("" : "+m"(sum));
}

#if defined(__x86_64__)
constexpr int kChains = 12;  // hides a latency of 4 with 2 units, and leaves registers for operands

__attribute__((target("avx2,fma"))) double F32Avx2() {
  __m256 sums[kChains] = {};
  MakeDistinct(sums);
  __m256 a = _mm256_set1_ps(0.5f);
  for (int64_t i = 0; i < kMathRounds; ++i) {
    asm volatile("" : "+x"(a));
    for (int j = 0; j < kChains; ++j) sums[j] = _mm256_fmadd_ps(a, a, sums[j]);
  }
  Consume(sums);
  return 2.0 * 8 * kChains * kMathRounds;
}

__attribute__((target("avx512f"))) double F32Avx512() {
  __m512 sums[kChains] = {};
  MakeDistinct(sums);
  __m512 a = _mm512_set1_ps(0.5f);
  for (int64_t i = 0; i < kMathRounds; ++i) {
    asm volatile("" : "+v"(a));
    for (int j = 0; j < kChains; ++j) sums[j] = _mm512_fmadd_ps(a, a, sums[j]);
  }
  Consume(sums);
  return 2.0 * 16 * kChains * kMathRounds;
}

__attribute__((target("avx512f,avx512bf16"))) double BF16Avx512() {
  __m512 sums[kChains] = {};
  MakeDistinct(sums);
  __m512i a = _mm512_set1_epi32(0x3f003f00);
  for (int64_t i = 0; i < kMathRounds; ++i) {
    asm volatile("" : "+v"(a));
    __m512bh b;
    std::memcpy(&b, &a, sizeof b);
    for (int j = 0; j < kChains; ++j) sums[j] = _mm512_dpbf16_ps(sums[j], b, b);
  }
  Consume(sums);
  return 2.0 * 32 * kChains * kMathRounds;
}

__attribute__((target("avx512f,avx512vnni"))) double I8Avx512() {
  __m512i sums[kChains] = {};
  MakeDistinct(sums);
  __m512i a = _mm512_set1_epi8(3);
  for (int64_t i = 0; i < kMathRounds; ++i) {
    asm volatile("" : "+v"(a));
    for (int j = 0; j < kChains; ++j) sums[j] = _mm512_dpbusd_epi32(sums[j], a, a);
  }
  Consume(sums);
  return 2.0 * 64 * kChains * kMathRounds;
}
#endif

double F32Portable() {
  float sums[32] = {};
  MakeDistinct(sums);
  float a = 0.5f;
  for (int64_t i = 0; i < kMathRounds; ++i) {
    asm volatile("" : "+m"(a));
    for (float& sum : sums) sum += a * a;
  }
  Consume(sums);
  return 2.0 * 32 * kMathRounds;
}

/// The loop that this CPU's best multiplier needs; types without one of their own use float32.
/// Each returns the FLOPs that it did.
double (*MathLoop(Math math))() {
#if defined(__x86_64__)
  const bool has_avx512 = __builtin_cpu_supports("avx512f") != 0;
  if (math == Math::kBF16 && has_avx512 && __builtin_cpu_supports("avx512bf16")) return BF16Avx512;
  if (math == Math::kI8 && has_avx512 && __builtin_cpu_supports("avx512vnni")) return I8Avx512;
  if (has_avx512) return F32Avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return F32Avx2;
#else
  static_cast<void>(math);
#endif
  return F32Portable;
}

}  // namespace

double Floors::ReadGbPerS() {
  if (read_gb_per_s_ > 0) return read_gb_per_s_;
  if (block_ == nullptr) {
    block_ = std::make_unique<cpu::PageBlock>(size_t{256} << 20);
    std::memset(block_->data(), 1, block_->size());
  }
  const auto* words = reinterpret_cast<const uint64_t*>(block_->data());
  const auto read = [&](int64_t) {
    cpu::ForEachLane([&](cpu::Lane lane) {
      const int64_t share = static_cast<int64_t>(block_->size() / sizeof *words) / lane.count;
      ReadAll(words + lane.index * share, share);
    });
  };
  read_gb_per_s_ = static_cast<double>(block_->size()) / MedianUs(read, 0.3) * 1e-3;
  return read_gb_per_s_;
}

void Floors::AverageBandwidths() {
  const double read = read_gb_per_s_;
  const double copy = copy_gb_per_s_;
  ForgetBandwidths();
  if (read > 0) read_gb_per_s_ = (read + ReadGbPerS()) / 2;
  if (copy > 0) copy_gb_per_s_ = (copy + CopyGbPerS()) / 2;
}

double Floors::CopyGbPerS() {
  if (copy_gb_per_s_ > 0) return copy_gb_per_s_;
  constexpr int64_t kWords = int64_t{1} << 24;  // 128 MB each
  const std::vector<uint64_t> from(kWords, 1);
  std::vector<uint64_t> to(kWords + 8, 1);
  uint64_t* aligned = to.data() + (64 - reinterpret_cast<uintptr_t>(to.data()) % 64) % 64 / 8;
  const auto copy = [&](int64_t) {
    cpu::ForEachLane([&](cpu::Lane lane) {
      const int64_t share = kWords / lane.count / 8 * 8;
      CopyAll(from.data() + lane.index * share, aligned + lane.index * share, share);
    });
  };
  copy_gb_per_s_ = 2 * 8 * static_cast<double>(kWords) / MedianUs(copy, 0.5) * 1e-3;
  return copy_gb_per_s_;
}

double Floors::GflopPerS(Math math) {
  double& known = gflop_per_s_[static_cast<int>(math)];
  if (known > 0) return known;
  double flops = 0;
  const double us = MedianUs(
      [&](int64_t) {
        cpu::ForEachLane([&](cpu::Lane lane) {
          const double done = MathLoop(math)();
          if (lane.index == 0) flops = done * lane.count;
        });
      },
      0.2);
  known = flops / us * 1e-3;
  return known;
}

}  // namespace flashinfer::bench
