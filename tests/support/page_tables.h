// SPDX-License-Identifier: Apache-2.0
// Page tables of attention cases.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "flashinfer/tensor.h"

namespace flashinfer::test {

/// Where each of the lengths begins and the last one ends, counted in whole units.
std::vector<int32_t> Indptr(const std::vector<int32_t>& lengths, int32_t unit = 1);

/// `count` different pages out of `num_pages`.
std::vector<int32_t> ShuffledPages(int64_t num_pages, int32_t count, std::mt19937_64& rng);

/// As a tensor; the numbers stay where they are.
TensorView ViewOf(const std::vector<int32_t>& numbers);

}  // namespace flashinfer::test
