// SPDX-License-Identifier: Apache-2.0
// ONNX vectors of attention, rotary embedding and writes to a cache.
#include <gtest/gtest.h>

#include <cmath>

#include "flashinfer/attention/prefill.h"
#include "flashinfer/page.h"
#include "flashinfer/rope.h"
#include "support/compare.h"
#include "vector_case.h"

namespace flashinfer::test {
namespace {

/// A tensor of ONNX's [batch, heads, tokens, dim], or [batch, tokens, heads · dim].
struct Heads {
  const VectorTensor& tensor;
  int64_t batch, num_heads, num_tokens, dim;

  Heads(const VectorTensor& t, int64_t heads_of_rank_3)
      : tensor(t),
        batch(t.shape[0]),
        num_heads(is_4d() ? t.shape[1] : heads_of_rank_3),
        num_tokens(is_4d() ? t.shape[2] : t.shape[1]),
        dim(is_4d() ? t.shape[3] : t.shape[2] / heads_of_rank_3) {}
  bool is_4d() const { return tensor.shape.size() == 4; }
  double At(int64_t b, int64_t head, int64_t token, int64_t i) const {
    const int64_t at = is_4d() ? ((b * num_heads + head) * num_tokens + token) * dim + i
                               : ((b * num_tokens + token) * num_heads + head) * dim + i;
    return tensor.values[static_cast<size_t>(at)];
  }
};

/// Our head dims are multiples of 8: the rest is zero.
int32_t PaddedHeadDim(int64_t dim) { return static_cast<int32_t>((dim + 7) / 8 * 8); }

/// Copies the heads of one batch entry to tokens `begin` and after of [tokens, heads, dim].
void CopyTokens(const Heads& from, int64_t b, int64_t begin, int64_t num_tokens, HostTensor& to) {
  for (int64_t t = 0; t < num_tokens; ++t) {
    for (int64_t h = 0; h < from.num_heads; ++h) {
      for (int64_t i = 0; i < from.dim; ++i) to.Set({begin + t, h, i}, from.At(b, h, t, i));
    }
  }
}

/// The keys, or values, of one batch entry: those of the past, then the new ones.
HostTensor KeysOf(const Heads& now, const VectorTensor* past, int64_t b, int64_t kv_len) {
  HostTensor keys(ParseDType(now.tensor.dtype), {kv_len, now.num_heads, PaddedHeadDim(now.dim)});
  keys.Fill(0);
  const int64_t past_len = past == nullptr ? 0 : past->shape[2];
  if (past != nullptr) CopyTokens(Heads(*past, now.num_heads), b, 0, past_len, keys);
  CopyTokens(now, b, past_len, kv_len - past_len, keys);
  return keys;
}

/// Element [b, head, i, j] of a mask that is broadcast from fewer dimensions.
double MaskAt(const VectorTensor& mask, std::array<int64_t, 4> index) {
  int64_t at = 0;
  const size_t rank = mask.shape.size();
  for (size_t d = 0; d < rank; ++d) {
    at = at * mask.shape[d] + (mask.shape[d] == 1 ? 0 : index[4 - rank + d]);
  }
  return mask.values[static_cast<size_t>(at)];
}

/// One batch entry of an attention vector.
class AttentionEntry {
 public:
  AttentionEntry(const VectorCase& c, int64_t b)
      : case_(c),
        b_(b),
        q_(c.input(0), c.Attribute<int64_t>("q_num_heads", 0)),
        k_(c.input(1), c.Attribute<int64_t>("kv_num_heads", 0)),
        v_(c.input(2), c.Attribute<int64_t>("kv_num_heads", 0)) {
    if (const VectorTensor* past = c.optional_input(4)) past_len_ = past->shape[2];
    kv_len_ = past_len_ + k_.num_tokens;
    if (const VectorTensor* lengths = c.optional_input(6)) {
      kv_len_ = static_cast<int64_t>(lengths->values[static_cast<size_t>(b)]);
    }
  }

  void Check() const {
    const DType dtype = ParseDType(q_.tensor.dtype);
    HostTensor q(dtype, {q_.num_tokens, q_.num_heads, PaddedHeadDim(q_.dim)});
    q.Fill(0);
    CopyTokens(q_, b_, 0, q_.num_tokens, q);
    const HostTensor k = KeysOf(k_, case_.optional_input(4), b_, kv_len_);
    const HostTensor v = KeysOf(v_, case_.optional_input(5), b_, kv_len_);
    HostTensor out(dtype, {q_.num_tokens, q_.num_heads, PaddedHeadDim(v_.dim)});
    // ONNX aligns causal masks at the begin of the new keys: a custom mask here.
    const HostTensor seen = Seen();
    const HostTensor bias = Bias();
    const AttentionProblem problem{
        .mask = MaskMode::kCustom,
        .sm_scale = case_.Attribute("scale", 1.0f / std::sqrt(static_cast<float>(q_.dim))),
        .logits_soft_cap = case_.Attribute("softcap", 0.0f),
        .has_bias = true};
    Workspace workspace;
    SinglePrefill(problem,
                  {.q = q,
                   .kv = {.k = k, .v = v},
                   .out = out,
                   .mask = {.custom = seen},
                   .extras = {.bias = bias}},
                  workspace);
    Compare(out);
  }

 private:
  HostTensor Seen() const {
    const VectorTensor* mask = case_.optional_input(3);
    HostTensor seen(DType::kBool, {q_.num_tokens, kv_len_});
    for (int64_t i = 0; i < q_.num_tokens; ++i) {
      for (int64_t j = 0; j < kv_len_; ++j) {
        bool is_seen = case_.Attribute("is_causal", 0) == 0 || j <= past_len_ + i;
        if (mask != nullptr && mask->dtype == "bool") {
          for (int64_t h = 0; h < q_.num_heads; ++h) {
            EXPECT_EQ(MaskAt(*mask, {b_, h, i, j}), MaskAt(*mask, {b_, 0, i, j}));
          }
          is_seen = is_seen && MaskAt(*mask, {b_, 0, i, j}) != 0;
        }
        seen.Set({i, j}, is_seen ? 1 : 0);
      }
    }
    return seen;
  }
  HostTensor Bias() const {
    const VectorTensor* mask = case_.optional_input(3);
    HostTensor bias(DType::kF32, {q_.num_heads, q_.num_tokens, kv_len_});
    for (int64_t h = 0; h < q_.num_heads; ++h) {
      for (int64_t i = 0; i < q_.num_tokens; ++i) {
        for (int64_t j = 0; j < kv_len_; ++j) {
          const bool is_number = mask != nullptr && mask->dtype != "bool";
          bias.Set({h, i, j}, is_number ? MaskAt(*mask, {b_, h, i, j}) : 0);
        }
      }
    }
    return bias;
  }
  void Compare(const HostTensor& out) const {
    const Heads expected(case_.output(), q_.num_heads);
    const Tolerance tolerance = ToleranceOf(out.view().dtype(), q_.dim);
    for (int64_t i = 0; i < q_.num_tokens; ++i) {
      for (int64_t h = 0; h < q_.num_heads; ++h) {
        for (int64_t d = 0; d < v_.dim; ++d) {
          EXPECT_TRUE(Near(out.At({i, h, d}), expected.At(b_, h, i, d), tolerance))
              << "batch " << b_ << ", query " << i << ", head " << h << ", element " << d << ": "
              << out.At({i, h, d}) << ", expected " << expected.At(b_, h, i, d);
        }
      }
    }
  }

  const VectorCase& case_;
  int64_t b_;
  Heads q_, k_, v_;
  int64_t past_len_ = 0;
  int64_t kv_len_;
};

}  // namespace

/// The other outputs, present keys and values and scores, are no results of ours.
void RunAttentionVector(const VectorCase& c) {
  for (int64_t b = 0; b < c.input(0).shape[0]; ++b) AttentionEntry(c, b).Check();
}

void RunRotaryVector(const VectorCase& c) {
  const Heads x(c.input(0), c.Attribute<int64_t>("num_heads", 0));
  const VectorTensor& cos = c.input(1);
  const VectorTensor& sin = c.input(2);
  const VectorTensor* ids = c.optional_input(3);
  const int64_t num_tokens = x.batch * x.num_tokens, half = cos.shape.back();
  const int64_t num_positions = cos.num_elements() / half;
  HostTensor cache(DType::kF32, {num_positions, 2 * half});
  for (int64_t p = 0; p < num_positions; ++p) {
    for (int64_t i = 0; i < half; ++i) {
      cache.Set({p, i}, cos.values[static_cast<size_t>(p * half + i)]);
      cache.Set({p, half + i}, sin.values[static_cast<size_t>(p * half + i)]);
    }
  }
  HostTensor q(DType::kF32, {num_tokens, x.num_heads, x.dim});
  HostTensor pos_ids(DType::kI64, {num_tokens});
  for (int64_t t = 0; t < num_tokens; ++t) {
    // Without ids there is a row of cosines for each token.
    pos_ids.Set({t}, ids == nullptr ? static_cast<double>(t) : ids->values[static_cast<size_t>(t)]);
    for (int64_t h = 0; h < x.num_heads; ++h) {
      for (int64_t i = 0; i < x.dim; ++i) {
        q.Set({t, h, i}, x.At(t / x.num_tokens, h, t % x.num_tokens, i));
      }
    }
  }
  HostTensor q_out(DType::kF32, {num_tokens, x.num_heads, x.dim});
  HostTensor k_out(DType::kF32, {num_tokens, x.num_heads, x.dim});
  const bool is_interleaved = c.Attribute("interleaved", 0) != 0;
  ApplyRope(q, q, pos_ids, q_out, k_out,
            {.style = is_interleaved ? RopeStyle::kInterleaved : RopeStyle::kNeox,
             .rotary_dim = 2 * half,
             .cos_sin_cache = cache});
  const Heads expected(c.output(), x.num_heads);
  for (int64_t t = 0; t < num_tokens; ++t) {
    for (int64_t h = 0; h < x.num_heads; ++h) {
      for (int64_t i = 0; i < x.dim; ++i) {
        const double want = expected.At(t / x.num_tokens, h, t % x.num_tokens, i);
        EXPECT_TRUE(Near(q_out.At({t, h, i}), want, ToleranceOf(DType::kF32)));
        EXPECT_EQ(q_out.At({t, h, i}), k_out.At({t, h, i}));
      }
    }
  }
}

/// Each batch entry's cache is one page; the last two dimensions are tokens and head_dim.
void RunTensorScatterVector(const VectorCase& c) {
  const VectorTensor& past = c.input(0);
  const VectorTensor& update = c.input(1);
  const size_t rank = past.shape.size();
  const int64_t batch = past.shape[0], page_size = past.shape[rank - 2], dim = past.shape[rank - 1];
  const int64_t num_heads = past.num_elements() / (batch * page_size * dim);
  const int64_t num_tokens = update.shape[rank - 2];
  const Dims pages_shape{batch, num_heads, page_size, dim};
  const HostTensor k = MakeTensor(past, pages_shape), v = MakeTensor(past, pages_shape);
  HostTensor rows(ParseDType(past.dtype), {batch * num_tokens, num_heads, dim});
  HostTensor batch_indices(DType::kI32, {batch * num_tokens});
  HostTensor positions(DType::kI32, {batch * num_tokens});
  HostTensor indptr(DType::kI32, {batch + 1}), indices(DType::kI32, {batch});
  HostTensor last_page_len(DType::kI32, {batch});
  indptr.Set({0}, 0);
  for (int64_t b = 0; b < batch; ++b) {
    indptr.Set({b + 1}, static_cast<double>(b + 1));
    indices.Set({b}, static_cast<double>(b));
    last_page_len.Set({b}, static_cast<double>(page_size));
    const VectorTensor* begins = c.optional_input(2);
    const double begin = begins == nullptr ? 0 : begins->values[static_cast<size_t>(b)];
    for (int64_t t = 0; t < num_tokens; ++t) {
      batch_indices.Set({b * num_tokens + t}, static_cast<double>(b));
      positions.Set({b * num_tokens + t}, begin + static_cast<double>(t));
      for (int64_t i = 0; i < num_heads * dim; ++i) {
        const int64_t at = ((b * num_heads + i / dim) * num_tokens + t) * dim + i % dim;
        rows.Set({b * num_tokens + t, i / dim, i % dim}, update.values[static_cast<size_t>(at)]);
      }
    }
  }
  AppendPagedKvCache(rows, rows, batch_indices, positions,
                     {.k = k, .v = v, .layout = KvLayout::kHND},
                     {.indptr = indptr, .indices = indices, .last_page_len = last_page_len});
  EXPECT_TRUE(AllNear(k, c.output().values, {0, 0}));
  EXPECT_TRUE(AllNear(v, c.output().values, {0, 0}));
}

}  // namespace flashinfer::test
