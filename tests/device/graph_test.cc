// SPDX-License-Identifier: Apache-2.0
// Calls recorded in a graph: replays with other contents and lengths give what calls give, on a
// stream of the caller's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "cuda/memory.h"
#include "device/family_calls.h"
#include "flashinfer/device.h"

namespace flashinfer::test {
namespace {

const Device kDevice{DeviceType::kCuda, 0};

/// What a run leaves in the outputs, which are NaN before where they are not read.
std::vector<HostTensor::Bytes> ResultsOf(FamilyCall& call, uint64_t seed, Stream stream,
                                         const std::function<void(Stream)>& run) {
  for (HostTensor* output : call.outputs) output->Fill(std::numeric_limits<double>::quiet_NaN());
  call.prepare(seed, stream);
  call.on->Send();
  run(stream);
  cuda::Synchronize(stream);
  call.on->Fetch();
  std::vector<HostTensor::Bytes> results;
  for (const HostTensor* output : call.outputs) {
    results.push_back(output->bytes());
    const std::vector<double> values = output->Values();
    EXPECT_TRUE(std::ranges::any_of(values, [](double x) { return !std::isnan(x); }));
  }
  return results;
}

TEST(Graph, ReplaysGiveWhatCallsGive) {
  std::string why;
  if (!cuda::Available(&why)) GTEST_SKIP() << why;
  for (FamilyCall& call : FamilyCalls(kDevice)) {
    SCOPED_TRACE(call.name);
    const OwnedStream stream(kDevice);
    const auto first = ResultsOf(call, 1, stream.stream(), call.run);  // loads the kernels
    const RecordedWork graph(stream.stream(), [&] { call.run(stream.stream()); });
    for (uint64_t seed : {2, 3, 4, 5}) {
      const auto replayed =
          ResultsOf(call, seed, stream.stream(), [&](Stream s) { graph.Launch(s); });
      const auto called = ResultsOf(call, seed, stream.stream(), call.run);
      EXPECT_EQ(replayed, called) << "seed " << seed;
      EXPECT_NE(replayed, first) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace flashinfer::test
