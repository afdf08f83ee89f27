// SPDX-License-Identifier: Apache-2.0
// The example variants in decode and prefill on a CUDA device, with splits of keys, against
// formulas in float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cuda/memory.h"
#include "flashinfer/attention/decode.h"
#include "flashinfer/attention/prefill.h"
#include "flashinfer/attention/variant.h"
#include "support/device.h"
#include "support/test_files.h"
#include "support/tolerance.h"

namespace flashinfer::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kDim = 16;
constexpr int64_t kQoHeads = 4;
constexpr int64_t kKvHeads = 2;
constexpr double kScale = 0.25;
const Device kDevice{DeviceType::kCuda, 0};

/// A row of scores.
struct Row {
  int request, token, q_len, kv_len, head;
  int position() const { return kv_len - q_len + token; }
};

/// Requests of different lengths; one sees no key. In decode every request has one query.
struct Batch {
  explicit Batch(bool is_decode, uint64_t seed)
      : random(seed),
        q_len(is_decode ? std::vector<int>{1, 1, 1} : std::vector<int>{3, 5, 2}),
        kv_len{9, 150, 0},
        q(DType::kF16, {0}),
        k(DType::kF16, {0}),
        v(DType::kF16, {0}),
        indptr(DType::kI32, {4}),
        kv_indptr(DType::kI32, {4}) {
    int64_t queries = 0;
    int64_t keys = 0;
    for (int b = 0; b <= 3; ++b) {
      indptr.Set({b}, static_cast<double>(queries));
      kv_indptr.Set({b}, static_cast<double>(keys));
      if (b == 3) break;
      queries += q_len[static_cast<size_t>(b)];
      keys += kv_len[static_cast<size_t>(b)];
    }
    q = HostTensor(DType::kF16, {queries, kQoHeads, kDim});
    k = HostTensor(DType::kF16, {keys, kKvHeads, kDim});
    v = HostTensor(DType::kF16, {keys, kKvHeads, kDim});
    for (HostTensor* x : {&q, &k, &v}) x->FillNormal(random);
  }
  int64_t QueryAt(const Row& row) const {
    return static_cast<int64_t>(indptr.At({row.request})) + row.token;
  }
  int64_t KeyAt(const Row& row, int key) const {
    return static_cast<int64_t>(kv_indptr.At({row.request})) + key;
  }

  std::mt19937_64 random;
  std::vector<int> q_len;
  std::vector<int> kv_len;
  HostTensor q, k, v;
  HostTensor indptr, kv_indptr;
};

/// What a variant ought to do. A function not given leaves attention as it is.
struct Formula {
  bool uses_softmax = true;
  std::function<double(double, const Row&)> query = {};
  std::function<double(double, int64_t kv_head, int64_t column)> key = {};
  std::function<double(double, const Row&, int key)> logit = {};
  std::function<bool(const Row&, int key)> sees = {};
  std::function<double(const Row&)> sink = {};
  std::function<double(double, const Row&)> output = {};
};

/// A file of examples/variants, the values of its parameters for a batch, and what it ought to do.
struct Example {
  std::string file;
  std::vector<VariantValue> values;
  Formula formula;
  int32_t window_left = -1;
};

/// Outputs of a row, then its LSE; NaN without softmax.
std::vector<double> Expected(const Batch& batch, const Formula& f, const Row& row) {
  const int64_t kv_head = row.head / (kQoHeads / kKvHeads);
  std::vector<double> scores;
  double max = f.sink ? f.sink(row) : -kInfinity;
  for (int key = 0; key < row.kv_len; ++key) {
    double dot = 0;
    for (int64_t c = 0; c < kDim; ++c) {
      const double x = batch.q.At({batch.QueryAt(row), row.head, c});
      const double y = batch.k.At({batch.KeyAt(row, key), kv_head, c});
      dot += (f.query ? f.query(x, row) : x) * (f.key ? f.key(y, kv_head, c) : y);
    }
    scores.push_back(f.logit ? f.logit(dot * kScale, row, key) : dot * kScale);
    if (f.sees && !f.sees(row, key)) scores.back() = f.uses_softmax ? -kInfinity : 0;
    max = std::max(max, scores.back());
  }
  double sum = f.sink ? std::exp(f.sink(row) - max) : 0;
  std::vector<double> out(kDim, 0);
  for (int key = 0; key < row.kv_len; ++key) {
    double weight = scores[static_cast<size_t>(key)];
    if (f.uses_softmax) weight = max == -kInfinity ? 0 : std::exp(weight - max);
    sum += weight;
    for (int64_t c = 0; c < kDim; ++c) {
      out[static_cast<size_t>(c)] += weight * batch.v.At({batch.KeyAt(row, key), kv_head, c});
    }
  }
  for (double& x : out) {
    if (f.uses_softmax) x = sum > 0 ? x / sum : 0;
    if (f.output) x = f.output(x, row);
  }
  const double lse = sum > 0 ? (max + std::log(sum)) / std::log(2.0) : -kInfinity;
  out.push_back(f.uses_softmax ? lse : std::nan(""));
  return out;
}

void ExpectRows(const Batch& batch, const Formula& formula, const HostTensor& out,
                const HostTensor& lse) {
  for (int b = 0; b < 3; ++b) {
    const int q_len = batch.q_len[static_cast<size_t>(b)];
    for (int i = 0; i < q_len; ++i) {
      for (int h = 0; h < kQoHeads; ++h) {
        const Row row{b, i, q_len, batch.kv_len[static_cast<size_t>(b)], h};
        const std::vector<double> expected = Expected(batch, formula, row);
        for (int64_t c = 0; c <= kDim; ++c) {
          const double got =
              c < kDim ? out.At({batch.QueryAt(row), h, c}) : lse.At({batch.QueryAt(row), h});
          const double want = expected[static_cast<size_t>(c)];
          const double error = 4e-3 * (1 + std::abs(want));  // keys and weights are f16
          const bool is_right = std::isnan(want)   ? std::isnan(got)
                                : std::isinf(want) ? got == want
                                                   : std::abs(got - want) <= error;
          ASSERT_TRUE(is_right) << "request " << b << " token " << i << " head " << h << " column "
                                << c << ": " << got << ", expected " << want;
        }
      }
    }
  }
}

AttentionProblem ProblemOf(const Example& example, const AttentionVariant& variant) {
  return {.dtype_q = DType::kF16,
          .dtype_kv = DType::kF16,
          .dtype_out = DType::kF16,
          .num_qo_heads = kQoHeads,
          .num_kv_heads = kKvHeads,
          .head_dim_qk = kDim,
          .head_dim_vo = kDim,
          .page_size = 1,
          .window_left = example.window_left,
          .sm_scale = static_cast<float>(kScale),
          .fixed_split_size = 64,
          .variant = &variant};
}

/// Runs decode, or prefill, of a batch on the device; `make` gives the example for it.
void Try(bool is_decode, const char* backend,
         const std::function<Example(Batch&, DeviceCopies&)>& make) {
  std::string why;
  if (!cuda::Available(&why)) GTEST_SKIP() << why;
  const uint64_t seed = std::random_device{}();
  Batch batch(is_decode, seed);
  DeviceCopies on(kDevice);
  const Example example = make(batch, on);
  SCOPED_TRACE(example.file + " " + backend + " seed " + std::to_string(seed));
  const AttentionVariant variant = AttentionVariant::FromFile(EnvOr("FLASHINFER_SOURCE_DIR", ".") +
                                                              "/examples/variants/" + example.file);
  HostTensor out(DType::kF16, batch.q.view().shape());
  HostTensor lse(DType::kF32, {batch.q.view().shape(0), kQoHeads});
  Workspace workspace(kDevice);
  const AttentionExtras extras{.variant_values = example.values};
  const int64_t num_keys = batch.k.view().shape(0);
  HostTensor pages(DType::kI32, {num_keys});  // of one token each
  for (int64_t i = 0; i < num_keys; ++i) pages.Set({i}, static_cast<double>(i));
  if (is_decode) {
    HostTensor last(DType::kI32, {3});
    last.Fill(1);
    const auto paged = [&](const HostTensor& x) {
      return TensorView(on(x).data(), DType::kF16, {num_keys, 1, kKvHeads, kDim},
                        {kKvHeads * kDim, kDim, kDim, 1}, kDevice);
    };
    BatchDecode decode(workspace);
    decode.Plan(ProblemOf(example, variant), {batch.kv_indptr, on(pages), last}, Backend(backend));
    decode.Run(on(batch.q), {paged(batch.k), paged(batch.v)}, on(out), on(lse), extras);
  } else {
    BatchPrefillRagged prefill(workspace);
    prefill.Plan(ProblemOf(example, variant), batch.indptr, batch.kv_indptr, {}, Backend(backend));
    prefill.Run(on(batch.q), {on(batch.k), on(batch.v)}, on(out), on(lse), extras);
  }
  cuda::Synchronize({kDevice});
  on.Fetch();
  ExpectRows(batch, example.formula, out, lse);
}

/// On every kernel that takes variants; those of Query and Key not on all.
void TryAll(const std::function<Example(Batch&, DeviceCopies&)>& make, bool has_keys = false) {
  Try(false, "cuda.mma", make);
  Try(true, "cuda.simt", make);
  if (!has_keys) Try(true, "cuda.mma", make);
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST(Variant, Sigmoid) {
  TryAll([](Batch&, DeviceCopies&) {
    return Example{
        "sigmoid.cu", {-1.5}, {.uses_softmax = false, .logit = [](double x, const Row&, int) {
                                 return Sigmoid(x - 1.5);
                               }}};
  });
}

TEST(Variant, SigmoidByMacros) {
  TryAll([](Batch&, DeviceCopies&) {
    return Example{"macro_sigmoid.cu",
                   {kScale, -1.5},
                   {.uses_softmax = false,
                    .logit = [](double x, const Row&, int) { return Sigmoid(x - 1.5); }}};
  });
}

TEST(Variant, SigmoidByMacrosOfBlocks) {
  TryAll([](Batch&, DeviceCopies&) {
    return Example{"macro_block_sigmoid.cu",
                   {kScale, -1.5},
                   {.uses_softmax = false,
                    .logit = [](double x, const Row&, int) { return Sigmoid(x - 1.5); }}};
  });
}

TEST(Variant, SoftCapByMacrosOfBlocks) {
  TryAll([](Batch&, DeviceCopies&) {
    return Example{"macro_block_soft_cap.cu",
                   {kScale, 2.0},
                   {.logit = [](double x, const Row&, int) { return 2 * std::tanh(x / 2); }}};
  });
}

TEST(Variant, SoftCap) {
  HostTensor caps(DType::kF32, {kQoHeads});
  caps.FillWith({0.5, 1, 3, 30});
  Try(false, "cuda.mma", [&](Batch&, DeviceCopies& on) {
    return Example{"soft_cap.cu", {on(caps)}, {.logit = [&](double x, const Row& row, int) {
                     const double cap = caps.At({row.head});
                     return cap * std::tanh(x / cap);
                   }}};
  });
}

TEST(Variant, Alibi) {
  HostTensor slopes(DType::kF32, {kQoHeads});
  slopes.FillWith({0.5, 0.25, 0.125, 0.0625});
  Try(false, "cuda.mma", [&](Batch&, DeviceCopies& on) {
    return Example{"alibi.cu", {on(slopes)}, {.logit = [&](double x, const Row& row, int key) {
                     return x + slopes.At({row.head}) * (key - row.position());
                   }}};
  });
}

/// Bits of all requests, the next one's from a new byte on.
struct Bits {
  Bits(Batch& batch, bool is_shared)
      : begin(DType::kI64, {3}), bytes(DType::kU8, {3 * 5 * 150 / 8 + 3}) {
    int64_t at = 0;
    for (int b = 0; b < 3; ++b) {
      const auto i = static_cast<size_t>(b);
      begin.Set({b}, static_cast<double>(is_shared ? 0 : at));
      at += (batch.q_len[i] * batch.kv_len[i] + 7) / 8;
    }
    for (int64_t i = 0; i < bytes.view().shape(0); ++i) {
      bytes.Set({i}, static_cast<double>(batch.random() % 256));
    }
  }
  bool At(const Row& row, int key) const {
    const int bit = row.token * row.kv_len + key;
    const auto first = static_cast<int64_t>(begin.At({row.request}));
    return (static_cast<int>(bytes.At({first + bit / 8})) >> (bit % 8) & 1) != 0;
  }
  HostTensor begin;
  HostTensor bytes;
};

TEST(Variant, CustomMask) {
  std::unique_ptr<Bits> bits;
  const auto make = [&](Batch& batch, DeviceCopies& on) {
    bits = std::make_unique<Bits>(batch, false);
    return Example{"custom_mask.cu",
                   {on(bits->bytes), on(bits->begin)},
                   {.sees = [&](const Row& row, int key) { return bits->At(row, key); }}};
  };
  TryAll(make);
}

TEST(Variant, CustomMaskByMacros) {
  std::unique_ptr<Bits> bits;
  Try(false, "cuda.mma", [&](Batch& batch, DeviceCopies& on) {
    bits = std::make_unique<Bits>(batch, true);  // the example has one request's mask
    return Example{"macro_custom_mask.cu",
                   {on(bits->bytes), kScale},
                   {.sees = [&](const Row& row, int key) { return bits->At(row, key); }}};
  });
}

TEST(Variant, DilatedWindow) {
  Try(false, "cuda.mma", [](Batch&, DeviceCopies&) {
    return Example{"dilated_window.cu", {8.0, 3.0, 2.0}, {.sees = [](const Row& row, int key) {
                     const int distance = row.position() - key;
                     if (distance < 0) return false;
                     return key < 2 || (distance < 8 && distance % 3 == 0);
                   }}};
  });
}

TEST(Variant, SmoothedKeys) {
  HostTensor factors(DType::kF16, {kKvHeads, kDim});
  HostTensor offsets(DType::kF16, {kKvHeads, kDim});
  TryAll(
      [&](Batch& batch, DeviceCopies& on) {
        factors.FillNormal(batch.random, 0.5);
        offsets.FillNormal(batch.random, 0.5);
        return Example{"smoothed_keys.cu",
                       {on(factors), on(offsets), static_cast<double>(kDim), 100.0},
                       {.query =
                            [](double x, const Row& row) {
                              return x * std::log(std::max(100.0, row.position() + 1.0)) /
                                     std::log(100.0);
                            },
                        .key =
                            [&](double x, int64_t head, int64_t column) {
                              return x * factors.At({head, column}) + offsets.At({head, column});
                            }}};
      },
      true);
}

TEST(Variant, GatedOutput) {
  HostTensor gates(DType::kBF16, {10, kQoHeads});
  TryAll([&](Batch& batch, DeviceCopies& on) {
    gates.FillNormal(batch.random);
    const Batch* const of = &batch;
    return Example{"gated_output.cu", {on(gates)}, {.output = [&, of](double x, const Row& row) {
                     return x * Sigmoid(gates.At({of->QueryAt(row), row.head}));
                   }}};
  });
}

TEST(Variant, SinksWithAWindowByMacros) {
  HostTensor sinks(DType::kF32, {kQoHeads});
  sinks.FillWith({-3, 0, 1, 12});
  for (int32_t window : {-1, 4, 70}) {
    const auto make = [&](Batch&, DeviceCopies& on) {
      return Example{
          "macro_sinks.cu",
          {on(sinks), kScale},
          {.sees = [window](const Row& row,
                            int key) { return window < 0 || key >= row.position() - window; },
           .sink = [&](const Row& row) { return sinks.At({row.head}); }},
          window};
    };
    if (window == 70) {
      TryAll(make);
    } else {
      Try(false, "cuda.mma", make);
    }
  }
}

}  // namespace
}  // namespace flashinfer::test
