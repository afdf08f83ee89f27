// SPDX-License-Identifier: Apache-2.0
// RoPE: bound by reading and writing q and k.
#include "ops/rope.h"

#include <vector>

#include "core/fields.h"
#include "dispatch/choose.h"
#include "harness.h"
#include "support/cases/rope.h"
#include "support/host_tensor.h"

namespace flashinfer::bench {
namespace {

const std::vector<std::string> kCases{
    "dtype=bf16 num_tokens=1 num_qo_heads=32 num_kv_heads=8 head_dim=128",
    "dtype=bf16 num_tokens=512 num_qo_heads=32 num_kv_heads=8 head_dim=128",
    "dtype=f32 num_tokens=512 num_qo_heads=32 num_kv_heads=8 head_dim=128",
    "dtype=f32 interleaved=1 num_tokens=512 num_qo_heads=9 num_kv_heads=3 head_dim=64",
};

void Run(Harness& harness, const std::string& text) {
  const auto c = ParseFields<test::RopeCase>(SplitWords(text));
  const int64_t num_elements = c.num_tokens * (c.num_qo_heads + c.num_kv_heads) * c.head_dim;
  const double bytes = 2.0 * static_cast<double>(num_elements * SizeBytes(c.dtype));
  const int64_t num_copies = NumColdCopies(bytes);
  test::HostTensor pos_ids(DType::kI32, {c.num_tokens});
  for (int64_t i = 0; i < c.num_tokens; ++i) pos_ids.Set({i}, static_cast<double>(i));
  std::vector<test::HostTensor> qs;
  std::vector<test::HostTensor> ks;
  for (int64_t i = 0; i < num_copies; ++i) {
    qs.emplace_back(c.dtype, Dims{c.num_tokens, c.num_qo_heads, c.head_dim}).Fill(0.5);
    ks.emplace_back(c.dtype, Dims{c.num_tokens, c.num_kv_heads, c.head_dim}).Fill(0.5);
  }
  const RopeOptions options{.style = c.interleaved ? RopeStyle::kInterleaved : RopeStyle::kNeox};
  const auto explanation = ExplainOp<RopeOp>({c.dtype, c.interleaved, c.head_dim});
  harness.Measure({.text = text, .backend = explanation.chosen()->candidate, .bytes = bytes},
                  [&](int64_t i) {
                    const auto copy = static_cast<size_t>(i % num_copies);
                    ApplyRope(qs[copy], ks[copy], pos_ids, qs[copy], ks[copy], options);
                  });
}

}  // namespace
}  // namespace flashinfer::bench

int main(int argc, char** argv) {
  using namespace flashinfer::bench;
  Harness harness("rope", argc, argv);
  for (const std::string& text : harness.Cases(kCases)) Run(harness, text);
}
