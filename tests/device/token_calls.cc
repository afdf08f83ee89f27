// SPDX-License-Identifier: Apache-2.0
// Calls of what surrounds attention: sampling, linear layers, quantisation and tables of tokens.
#include <random>

#include "device/family_calls.h"
#include "flashinfer/flashinfer.h"
#include "support/gguf_blocks.h"

namespace flashinfer::test {
namespace {

constexpr int64_t kRows = 5;
constexpr int64_t kVocabulary = 5000;
constexpr int64_t kDrafts = 3;

/// A call over tensors of a struct T, with a method Fill(seed).
template <class T>
FamilyCall CallOf(Device device, const std::string& name,
                  const std::function<void(T&, DeviceCopies&, Stream)>& run,
                  const std::function<std::vector<HostTensor*>(T&)>& outputs) {
  auto on = std::make_shared<DeviceCopies>(device);
  auto t = std::make_shared<T>();
  return {.name = name,
          .prepare =
              [t](uint64_t seed, Stream) {
                std::mt19937_64 rng(seed);
                t->Fill(rng);
              },
          .run = [t, on, run](Stream stream) { run(*t, *on, stream); },
          .outputs = outputs(*t),
          .on = on};
}

struct Rows {
  HostTensor logits{DType::kF32, {kRows, kVocabulary}};
  HostTensor probs{DType::kF32, {kRows, kVocabulary}};
  HostTensor out{DType::kF32, {kRows, kVocabulary}};
  HostTensor tokens{DType::kI32, {kRows}};
  HostTensor values{DType::kF32, {kRows, 50}};
  HostTensor indices{DType::kI32, {kRows, 50}};
  HostTensor draft_tokens{DType::kI32, {1, kDrafts}};
  HostTensor draft_probs{DType::kF32, {1, kDrafts, kVocabulary}};
  HostTensor target_probs{DType::kF32, {1, kDrafts + 1, kVocabulary}};
  HostTensor accepted{DType::kI32, {1, kDrafts + 1}};

  void Fill(std::mt19937_64& rng) {
    logits.FillNormal(rng, 3);
    for (HostTensor* t : {&probs, &draft_probs, &target_probs}) {
      t->FillUniform(rng, 0, 2.0 / kVocabulary);
    }
    draft_tokens.FillUniform(rng, 0, kVocabulary - 1);
  }
};

using RowsCall = std::function<void(Rows&, DeviceCopies&, Stream)>;

void AddVocabularyCalls(Device device, std::vector<FamilyCall>& calls) {
  const auto add = [&](const std::string& name, HostTensor Rows::*output, const RowsCall& run) {
    calls.push_back(CallOf<Rows>(
        device, name, run, [output](Rows& t) { return std::vector<HostTensor*>{&(t.*output)}; }));
  };
  add("softmax", &Rows::out, [](Rows& t, DeviceCopies& on, Stream stream) {
    Softmax(on(t.logits), on(t.out), 0.7f, {}, stream);
  });
  add("argmax", &Rows::tokens, [](Rows& t, DeviceCopies& on, Stream stream) {
    ArgMax(on(t.logits), on(t.tokens), {}, {}, stream);
  });
  add("sampling", &Rows::tokens, [](Rows& t, DeviceCopies& on, Stream stream) {
    SampleFromLogits(on(t.logits), on(t.tokens), {.top_k = 40, .top_p = 0.9f}, {}, stream);
  });
  add("token_filter", &Rows::out, [](Rows& t, DeviceCopies& on, Stream stream) {
    TopPRenormProbs(on(t.probs), on(t.out), 0.6f, {}, stream);
  });
  add("topk", &Rows::values, [](Rows& t, DeviceCopies& on, Stream stream) {
    TopK(on(t.logits), on(t.values), on(t.indices), {.sorted = true}, stream);
  });
  add("chain_speculative", &Rows::accepted, [](Rows& t, DeviceCopies& on, Stream stream) {
    ChainSpeculativeSampling(on(t.draft_probs), on(t.draft_tokens), on(t.target_probs),
                             {.tokens = on(t.accepted)}, {.seed = 3}, stream);
  });
}

/// A linear layer of Q4_K weights of few or of many tokens, or rows of it.
FamilyCall LinearCall(Device device, int64_t num_tokens, bool gathers) {
  struct Tensors {
    Tensors(int64_t count, Device where)
        : x(DType::kBF16, {count, 512}),
          ids(DType::kI32, {count}),
          out(DType::kBF16, {count, 256}),
          gathered(DType::kBF16, {count, 512}),
          bytes(RandomWeight(WeightFormat::kQ4_K, 256, 512, rng)),
          weight({bytes.data(), WeightFormat::kQ4_K, 256, 512}, {.device = where}) {}
    std::mt19937_64 rng{7};
    HostTensor x, ids, out, gathered;
    std::vector<uint8_t> bytes;
    PackedWeight weight;
  };
  auto on = std::make_shared<DeviceCopies>(device);
  auto t = std::make_shared<Tensors>(num_tokens, device);
  return {.name = gathers          ? "gather_rows"
                  : num_tokens > 8 ? "linear"
                                   : "linear of few tokens",
          .prepare =
              [t](uint64_t seed, Stream) {
                std::mt19937_64 rng(seed);
                t->x.FillNormal(rng);
                t->ids.FillUniform(rng, 0, 255);
              },
          .run =
              [t, on, gathers](Stream stream) {
                DeviceCopies& d = *on;
                if (gathers) {
                  t->weight.GatherRows(d(t->ids), d(t->gathered), stream);
                } else {
                  Linear(d(t->x), t->weight, d(t->out), {}, stream);
                }
              },
          .outputs = {gathers ? &t->gathered : &t->out},
          .on = on};
}

struct Quantized {
  HostTensor x{DType::kBF16, {37, 512}};
  HostTensor q{DType::kE4M3, {37, 512}};
  HostTensor scales{DType::kF32, {37, 4}};
  HostTensor back{DType::kBF16, {37, 512}};
  HostTensor pairs{DType::kE2M1x2, {37, 256}};
  HostTensor block_scales{DType::kE4M3, {128 * 32}};
  HostTensor linear{DType::kU8, {37, 32}};
  HostTensor tiles{DType::kU8, {128 * 32}};
  HostTensor global_scale{DType::kF32, {1}};
  HostTensor bits{DType::kBool, {999}};
  HostTensor packed{DType::kU8, {125}};

  void Fill(std::mt19937_64& rng) {
    x.FillNormal(rng);
    global_scale.FillUniform(rng, 100, 1000);
    linear.FillUniform(rng, 0, 255);
    for (int64_t i = 0; i < 999; ++i) bits.Set({i}, static_cast<double>(rng() % 2));
  }
};

struct Tables {
  HostTensor indptr{DType::kI32, {4}};
  HostTensor lens{DType::kI32, {3}};
  HostTensor last_len{DType::kI32, {3}};
  HostTensor requests{DType::kI32, {12}};
  HostTensor positions{DType::kI32, {12}};
  HostTensor seq_lens{DType::kI32, {3}};

  void Fill(std::mt19937_64& rng) {
    indptr.FillWith({0, 4, 9, 12});
    lens.FillUniform(rng, 5, 1000);
    last_len.FillUniform(rng, 1, 16);
  }
};

void AddTableCalls(Device device, std::vector<FamilyCall>& calls) {
  calls.push_back(CallOf<Quantized>(
      device, "quantize and dequantize",
      [](Quantized& t, DeviceCopies& on, Stream stream) {
        Quantize(on(t.x), on(t.q), on(t.scales), {}, stream);
        Dequantize(on(t.q), on(t.scales), on(t.back), {}, stream);
      },
      [](Quantized& t) {
        return std::vector<HostTensor*>{&t.q, &t.scales, &t.back};
      }));
  calls.push_back(CallOf<Quantized>(
      device, "quantize_blocks, dequantize_blocks and swizzle_block_scales",
      [](Quantized& t, DeviceCopies& on, Stream stream) {
        const QuantizeBlocksOptions options{.global_scale_tensor = on(t.global_scale)};
        QuantizeBlocks(on(t.x), on(t.pairs), on(t.block_scales), options, stream);
        DequantizeBlocks(on(t.pairs), on(t.block_scales), on(t.back), options, stream);
        SwizzleBlockScales(on(t.linear), on(t.tiles), ScaleLayout::k128x4, {}, stream);
      },
      [](Quantized& t) {
        return std::vector<HostTensor*>{&t.block_scales, &t.back, &t.tiles};
      }));
  calls.push_back(CallOf<Quantized>(
      device, "packbits",
      [](Quantized& t, DeviceCopies& on, Stream stream) {
        PackBits(on(t.bits), on(t.packed), BitOrder::kLittle, {}, stream);
      },
      [](Quantized& t) { return std::vector<HostTensor*>{&t.packed}; }));
  calls.push_back(CallOf<Tables>(
      device, "get_batch_indices_positions and get_seq_lens",
      [](Tables& t, DeviceCopies& on, Stream stream) {
        GetBatchIndicesPositions(on(t.indptr), on(t.lens), on(t.requests), on(t.positions), {},
                                 stream);
        GetSeqLens(on(t.indptr), on(t.last_len), 16, on(t.seq_lens), {}, stream);
      },
      [](Tables& t) {
        return std::vector<HostTensor*>{&t.positions, &t.seq_lens};
      }));
}

}  // namespace

std::vector<FamilyCall> TokenCalls(Device device) {
  std::vector<FamilyCall> calls;
  AddVocabularyCalls(device, calls);
  calls.push_back(LinearCall(device, 3, false));
  calls.push_back(LinearCall(device, 40, false));
  calls.push_back(LinearCall(device, 3, true));
  AddTableCalls(device, calls);
  return calls;
}

}  // namespace flashinfer::test
