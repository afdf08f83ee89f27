// SPDX-License-Identifier: Apache-2.0
// Batch indices, positions and sequence lengths against lists that grow a token at a time.
#include "support/checks/page_positions.h"

#include <algorithm>
#include <random>

#include "ops/page_positions.h"
#include "support/mismatch.h"

namespace flashinfer::test {
namespace {

TensorView View(const std::vector<int32_t>& x) {
  return {x.data(), DType::kI32, {static_cast<int64_t>(x.size())}};
}

int32_t Draw(std::mt19937_64& rng, int32_t low, int32_t high) {
  return std::uniform_int_distribution<int32_t>(low, high)(rng);
}

}  // namespace

void CheckBatchIndicesPositions(const BatchIndicesPositionsCase& c, CaseRun& run) {
  std::mt19937_64 rng(71);
  std::vector<int32_t> indptr{0};
  std::vector<int32_t> lens;
  std::vector<double> requests;
  std::vector<double> positions;
  for (int32_t b = 0; b < c.num_requests; ++b) {
    const int32_t before = Draw(rng, 0, c.max_before);
    const int32_t count = Draw(rng, 0, c.max_new);
    for (int32_t i = 0; i < count; ++i) {
      requests.push_back(b);
      positions.push_back(before + i);
    }
    lens.push_back(before + count);
    indptr.push_back(indptr.back() + count);
  }
  const int64_t num_rows = indptr.back() + c.num_spare;
  requests.resize(static_cast<size_t>(num_rows), -1);
  positions.resize(static_cast<size_t>(num_rows), -1);
  run.ForEachCandidate<BatchIndicesPositionsOp>({}, c, [&](Trial& trial) {
    DeviceCopies on(trial.device());
    HostTensor batch_indices(DType::kI32, {num_rows});
    HostTensor position_rows(DType::kI32, {num_rows});
    batch_indices.Fill(77);
    position_rows.Fill(77);
    GetBatchIndicesPositions(on(View(indptr)), on(View(lens)), on(batch_indices), on(position_rows),
                             trial.backend());
    on.Fetch();
    trial.Expect("batch_indices", Mismatch(batch_indices, requests, {0, 0}));
    trial.Expect("positions", Mismatch(position_rows, positions, {0, 0}));
  });
}

void CheckSeqLens(const SeqLensCase& c, CaseRun& run) {
  std::mt19937_64 rng(72);
  std::vector<int32_t> indptr{0};
  std::vector<int32_t> last;
  std::vector<double> expected;
  for (int64_t b = 0; b < c.num_requests; ++b) {
    const int32_t num_pages = Draw(rng, 0, c.max_pages);
    indptr.push_back(indptr.back() + num_pages);
    last.push_back(Draw(rng, 1, c.page_size));
    double len = 0;
    for (int32_t page = 0; page < num_pages; ++page) {
      len += page + 1 < num_pages ? c.page_size : last.back();
    }
    expected.push_back(len);
    // What is not read may be anything.
    if (num_pages == 0) last.back() = -5;
  }
  run.ForEachCandidate<SeqLensOp>({}, c, [&](Trial& trial) {
    DeviceCopies on(trial.device());
    HostTensor lens(DType::kI32, {c.num_requests});
    lens.Fill(77);
    GetSeqLens(on(View(indptr)), on(View(last)), c.page_size, on(lens), trial.backend());
    on.Fetch();
    trial.Expect("seq_lens", Mismatch(lens, expected, {0, 0}));
  });
}

}  // namespace flashinfer::test
