// SPDX-License-Identifier: Apache-2.0
// Packing of bits against a loop over bits.
#include "support/checks/packbits.h"

#include <algorithm>

#include "flashinfer/quantize.h"
#include "support/mismatch.h"

namespace flashinfer::test {
namespace {

/// Of values[begin, end).
std::vector<double> Packed(const std::vector<double>& values, size_t begin, size_t end,
                           bool little) {
  std::vector<double> bytes((end - begin + 7) / 8, 0);
  for (size_t i = begin; i < end; ++i) {
    const size_t at = i - begin;
    const size_t bit = little ? at % 8 : 7 - at % 8;
    if (values[i] != 0) bytes[at / 8] += static_cast<double>(1u << bit);
  }
  return bytes;
}

HostTensor RandomTruths(DType dtype, int64_t size, std::mt19937_64& rng) {
  HostTensor x(dtype, {size});
  std::uniform_int_distribution<int> value(0, dtype == DType::kBool ? 1 : 255);
  for (int64_t i = 0; i < size; ++i) x.Set({i}, rng() % 2 == 0 ? 0 : value(rng));
  return x;
}

}  // namespace

void CheckPackBits(const PackBitsCase& c, CaseRun& run) {
  std::mt19937_64 rng(17);
  std::vector<int64_t> begins{0};
  for (int64_t i = 0; i < std::max<int64_t>(1, c.num_segments); ++i) {
    const bool is_random = c.num_segments > 0;
    begins.push_back(
        begins.back() +
        (is_random ? static_cast<int64_t>(rng() % static_cast<uint64_t>(c.size + 1)) : c.size));
  }
  const HostTensor x = RandomTruths(c.dtype, begins.back(), rng);
  const std::vector<double> values = x.Values();
  std::vector<double> expected;
  std::vector<double> expected_indptr{0};
  for (size_t i = 0; i + 1 < begins.size(); ++i) {
    const auto bytes = Packed(values, static_cast<size_t>(begins[i]),
                              static_cast<size_t>(begins[i + 1]), c.little);
    expected.insert(expected.end(), bytes.begin(), bytes.end());
    expected_indptr.push_back(static_cast<double>(expected.size()));
  }
  HostTensor indptr(DType::kI32, {static_cast<int64_t>(begins.size())});
  for (size_t i = 0; i < begins.size(); ++i) {
    indptr.Set({static_cast<int64_t>(i)}, static_cast<double>(begins[i]));
  }
  const BitOrder order = c.little ? BitOrder::kLittle : BitOrder::kBig;
  run.ForEachCandidate<PackBitsOp>(ProblemOf(c), c, [&](Trial& trial) {
    DeviceCopies on(trial.device());
    HostTensor packed(DType::kU8, {static_cast<int64_t>(expected.size())});
    if (c.num_segments == 0) {
      PackBits(on(x), on(packed), order, trial.backend());
    } else {
      HostTensor packed_indptr(DType::kI32, indptr.view().shape());
      trial.ExpectEqual("bytes", {}, static_cast<double>(SegmentPackBitsBytes(indptr)),
                        static_cast<double>(expected.size()));
      SegmentPackBits(on(x), {indptr, packed_indptr}, on(packed), order, trial.backend());
      trial.Expect("packed_indptr", Mismatch(packed_indptr, expected_indptr, {0, 0}));
    }
    on.Fetch();
    trial.Expect("packed", Mismatch(packed, expected, {0, 0}));
  });
}

}  // namespace flashinfer::test
