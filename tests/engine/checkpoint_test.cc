// SPDX-License-Identifier: Apache-2.0
// Models from tiny files that the tests write: what is read, and what is refused by name.
#include "engine/checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "engine/error_matchers.h"
#include "support/gguf_blocks.h"
#include "support/test_files.h"
#include "support/tiny_model.h"

namespace flashinfer::engine {
namespace {

using test::ExpectError;
using test::GgufWriter;
using test::MakeTinyGguf;
using test::TinyModel;

constexpr auto kBad = ErrorKind::kInvalidArgument;
constexpr auto kUnsupported = ErrorKind::kUnsupported;

Checkpoint Read(const TinyModel& model) {
  return Checkpoint::FromBytes("m.gguf", MakeTinyGguf(model));
}

void ExpectRefused(ErrorKind kind, const std::string& words, const TinyModel& model) {
  ExpectError(kind, words, [&] { Read(model); });
}

void ExpectRefusedWith(ErrorKind kind, const std::string& words,
                       std::function<void(GgufWriter&)> extra, const char* architecture = "llama") {
  TinyModel model;
  model.architecture = architecture;
  model.extra = std::move(extra);
  ExpectRefused(kind, words, model);
}

TEST(Checkpoint, ReadsTheSizes) {
  TinyModel model;
  model.num_qo_heads = 6;
  model.num_kv_heads = 3;
  model.head_dim = 24;
  const Checkpoint checkpoint = Read(model);
  const ModelConfig& c = checkpoint.config();
  EXPECT_EQ(c.architecture, Architecture::kLlama);
  EXPECT_EQ(c.num_layers, 2);
  EXPECT_EQ(c.hidden_size, 256);
  EXPECT_EQ(c.num_qo_heads, 6);
  EXPECT_EQ(c.num_kv_heads, 3);
  EXPECT_EQ(c.head_dim, 24);
  EXPECT_EQ(c.ffn_size, 512);
  EXPECT_EQ(c.vocab_size, static_cast<int64_t>(test::MakeTinyVocabulary().tokens.size()));
  EXPECT_EQ(c.context_length, 256);
  EXPECT_EQ(c.rms_eps, 1e-5f);
  EXPECT_EQ(c.rope.theta, 1e4f);
  EXPECT_EQ(c.rope.rotary_dim, 24);
  EXPECT_EQ(c.rope.scale, 1);
  EXPECT_EQ(c.rope.magnitude, 1);
  EXPECT_TRUE(c.rope.frequency_factors.empty());
  EXPECT_TRUE(c.has_tied_output);
  ASSERT_EQ(checkpoint.layers().size(), 2u);
  EXPECT_EQ(checkpoint.layers()[1].attention_output.rows, 256);
  EXPECT_EQ(checkpoint.layers()[1].attention_output.cols, 6 * 24);
  ASSERT_NE(checkpoint.gguf(), nullptr);
  EXPECT_EQ(checkpoint.gguf()->GetString("tokenizer.ggml.model"), "gpt2");
}

TEST(Checkpoint, ArchitecturesDifferInRotationBiasAndNorm) {
  for (const auto& [architecture, style] :
       {std::pair{"llama", RopeStyle::kInterleaved}, std::pair{"qwen2", RopeStyle::kNeox},
        std::pair{"qwen3", RopeStyle::kNeox}}) {
    TinyModel model;
    model.architecture = architecture;
    model.has_qkv_bias = architecture == std::string("qwen2");
    const Checkpoint checkpoint = Read(model);
    EXPECT_EQ(Name(checkpoint.config().architecture), architecture);
    EXPECT_EQ(checkpoint.config().rope.style, style);
    EXPECT_EQ(checkpoint.config().has_qkv_bias, model.has_qkv_bias);
    EXPECT_EQ(checkpoint.config().has_qk_norm, architecture == std::string("qwen3"));
    const LayerWeights& layer = checkpoint.layers()[0];
    EXPECT_EQ(layer.q_bias.size(), model.has_qkv_bias ? 256u : 0u);
    EXPECT_EQ(layer.k_bias.size(), model.has_qkv_bias ? 64u : 0u);
    EXPECT_EQ(layer.q_norm.size(), checkpoint.config().has_qk_norm ? 32u : 0u);
  }
}

TEST(Checkpoint, WeightsAreThoseOfTheFile) {
  for (const WeightFormat format : test::kWeightFormats) {
    SCOPED_TRACE(Name(format));
    TinyModel model;
    model.format = format;
    model.formats = {{"token_embd", WeightFormat::kF16}, {"ffn_down", WeightFormat::kF32}};
    model.has_untied_output = true;
    Checkpoint opened = Read(model);
    const Checkpoint checkpoint = std::move(opened);
    EXPECT_FALSE(checkpoint.config().has_tied_output);
    EXPECT_EQ(checkpoint.token_embedding().format, WeightFormat::kF16);
    EXPECT_EQ(checkpoint.output().format, format);
    EXPECT_NE(checkpoint.output().data, checkpoint.token_embedding().data);
    for (const LayerWeights& layer : checkpoint.layers()) {
      EXPECT_EQ(layer.down.format, WeightFormat::kF32);
      EXPECT_EQ(layer.down.rows, 256);
      EXPECT_EQ(layer.down.cols, 512);
      for (const WeightView* weight : {&layer.q, &layer.k, &layer.v, &layer.gate, &layer.up}) {
        EXPECT_EQ(weight->format, format);
        // Rows of unit length times 1 / sqrt(cols): the sum of squares of each row is about 1.
        double sum = 0;
        for (const double value : test::Dequantize(*weight)) sum += value * value;
        EXPECT_NEAR(sum / static_cast<double>(weight->rows), 1, 0.1);
        checkpoint.ReleasePages(*weight);  // bytes in memory are not a file: nothing happens
      }
    }
  }
}

TEST(Checkpoint, EachTensorThatIsMissingIsNamed) {
  const std::string names[] = {
      "token_embd.weight",     "output_norm.weight",    "blk.1.attn_norm.weight",
      "blk.0.attn_q.weight",   "blk.1.attn_k.weight",   "blk.1.attn_v.weight",
      "blk.1.attn_k.bias",     "blk.0.ffn_up.weight",   "blk.1.attn_output.weight",
      "blk.1.ffn_norm.weight", "blk.0.ffn_gate.weight", "blk.1.ffn_down.weight",
  };
  for (const std::string& name : names) {
    TinyModel model;
    model.has_qkv_bias = true;
    model.leave_out = [&](const std::string& tensor) { return tensor == name; };
    ExpectRefused(kBad, "m.gguf: has no tensor '" + name + "'", model);
  }
  TinyModel qwen3;
  qwen3.architecture = "qwen3";
  qwen3.leave_out = [](const std::string& tensor) { return tensor == "blk.1.attn_k_norm.weight"; };
  ExpectRefused(kBad, "has no tensor 'blk.1.attn_k_norm.weight'", qwen3);
}

/// A model in which `name` has another shape or type.
TinyModel WithTensor(const std::string& name, const std::vector<int64_t>& shape, uint32_t type,
                     size_t num_bytes) {
  TinyModel model;
  model.leave_out = [name](const std::string& tensor) { return tensor == name; };
  model.extra = [=](GgufWriter& writer) {
    writer.AddTensor(name, shape, type, std::vector<uint8_t>(num_bytes));
  };
  return model;
}

TEST(Checkpoint, TensorsOfOtherShapesOrTypesAreNamed) {
  ExpectRefused(kBad,
                "tensor 'blk.0.attn_q.weight' is [256, 255], the model's sizes make it [256, 256]",
                WithTensor("blk.0.attn_q.weight", {256, 255}, 0, 256 * 255 * 4));
  ExpectRefused(kBad, "'blk.0.attn_k.weight' is [4096]",
                WithTensor("blk.0.attn_k.weight", {4096}, 0, 4096 * 4));
  ExpectRefused(kBad, "'output_norm.weight' is [255], the model's sizes make it [256]",
                WithTensor("output_norm.weight", {255}, 0, 255 * 4));
  ExpectRefused(kBad, "tokenizer.ggml.tokens has 272 tokens, token_embd.weight has 100 rows",
                WithTensor("token_embd.weight", {100, 256}, 0, 100 * 256 * 4));
  ExpectRefused(kUnsupported, "tensor 'blk.1.attn_v.weight' is Q3_K; F32, F16, BF16, Q4_0",
                WithTensor("blk.1.attn_v.weight", {64, 256}, 11, 64 * 110));
  ExpectRefused(kUnsupported, "'blk.0.attn_norm.weight' is F16; of vectors only F32",
                WithTensor("blk.0.attn_norm.weight", {256}, 1, 512));
}

TEST(Checkpoint, WhatIsBeyondTheEngineIsNamed) {
  const std::vector<uint8_t> four(4);
  TinyModel other;
  other.architecture = "qwen3moe";
  ExpectRefused(kUnsupported, "architecture 'qwen3moe' is not supported; llama, qwen2 and qwen3",
                other);
  ExpectRefusedWith(kUnsupported, "llama.expert_count is 8",
                    [](GgufWriter& w) { w.Set("llama.expert_count", 8u); });
  ExpectRefusedWith(
      kUnsupported, "qwen2.attention.sliding_window is 4096",
      [](GgufWriter& w) { w.Set("qwen2.attention.sliding_window", 4096u); }, "qwen2");
  ExpectRefusedWith(kUnsupported, "llama.attention.causal is false",
                    [](GgufWriter& w) { w.Set("llama.attention.causal", false); });
  ExpectRefusedWith(kUnsupported, "tensor 'blk.0.ffn_gate_inp.weight' has no place in a dense",
                    [&](GgufWriter& w) { w.AddTensor("blk.0.ffn_gate_inp.weight", {1}, 0, four); });
  ExpectRefusedWith(kUnsupported, "tensor 'blk.0.attn_output.bias' has no place",
                    [&](GgufWriter& w) { w.AddTensor("blk.0.attn_output.bias", {1}, 0, four); });
  // A bias in the second layer only.
  ExpectRefusedWith(kUnsupported, "tensor 'blk.1.attn_q.bias' has no place",
                    [&](GgufWriter& w) { w.AddTensor("blk.1.attn_q.bias", {1}, 0, four); });
}

/// Sizes are set by the tiny model itself, so bad ones are made there.
TEST(Checkpoint, BadSizesAreRefused) {
  TinyModel no_heads;
  no_heads.num_kv_heads = 3;
  ExpectRefused(kBad, "llama.attention.head_count_kv is 3, a divisor of the 8 query heads",
                no_heads);
  for (const int64_t num_layers : {int64_t{0}, int64_t{1} << 30}) {
    TinyModel layers;
    layers.num_layers = num_layers == 0 ? 0 : 2;
    std::vector<uint8_t> bytes = MakeTinyGguf(layers);
    if (num_layers != 0) {  // the value follows the key and its type
      const std::string key = "llama.block_count";
      const auto at = std::search(bytes.begin(), bytes.end(), key.begin(), key.end());
      const uint32_t value = static_cast<uint32_t>(num_layers);
      std::memcpy(&*(at + static_cast<int64_t>(key.size()) + 4), &value, sizeof(value));
    }
    ExpectError(kBad, "llama.block_count is " + std::to_string(num_layers) + ", 1 to 16777216",
                [&] { Checkpoint::FromBytes("m", bytes); });
  }
  TinyModel eps;
  eps.rms_eps = -1;
  ExpectRefused(kBad, "layer_norm_rms_epsilon is -1", eps);
}

TEST(Checkpoint, ReadsLlama2cFiles) {
  for (const bool untied : {false, true}) {
    TinyModel model;
    model.hidden_size = 32;
    model.num_qo_heads = 4;
    model.ffn_size = 40;
    model.has_untied_output = untied;
    const std::vector<uint8_t> bytes = test::MakeTinyLlama2c(model, 50);
    const Checkpoint checkpoint = Checkpoint::FromBytes("m.bin", bytes);
    const ModelConfig& c = checkpoint.config();
    EXPECT_EQ(checkpoint.gguf(), nullptr);
    EXPECT_EQ(c.num_layers, 2);
    EXPECT_EQ(c.head_dim, 8);
    EXPECT_EQ(c.num_kv_heads, 2);
    EXPECT_EQ(c.vocab_size, 50);
    EXPECT_EQ(c.rope.style, RopeStyle::kInterleaved);
    EXPECT_EQ(c.has_tied_output, !untied);
    const LayerWeights& last = checkpoint.layers()[1];
    EXPECT_EQ(last.k.rows, 16);
    EXPECT_EQ(last.down.cols, 40);
    // Norms are near 1 and matrices around 0, so a wrong offset shows.
    for (const auto& norm : {last.attention_norm, last.ffn_norm, checkpoint.output_norm()}) {
      for (const float value : norm) EXPECT_NEAR(value, 1, 0.7);
    }
    for (const WeightView* weight :
         {&last.q, &last.v, &last.down, &last.up, &checkpoint.output()}) {
      double sum = 0;
      for (const double value : test::Dequantize(*weight)) sum += value;
      EXPECT_NEAR(sum / static_cast<double>(weight->rows * weight->cols), 0, 0.1);
    }
    for (const size_t size : {size_t{0}, size_t{27}, size_t{28}, bytes.size() - 1}) {
      ExpectError(kBad,
                  "m.bin: ", [&] { Checkpoint::FromBytes("m.bin", std::span(bytes).first(size)); });
    }
    std::vector<uint8_t> longer = bytes;
    longer.push_back(0);
    ExpectError(kBad, "has " + std::to_string(bytes.size()) + " bytes, it has",
                [&] { Checkpoint::FromBytes("m.bin", longer); });
  }
}

TEST(Checkpoint, Llama2cHeadersAreChecked) {
  TinyModel model;
  model.hidden_size = 32;
  model.num_qo_heads = 4;
  const std::vector<uint8_t> bytes = test::MakeTinyLlama2c(model, 50);
  const auto with = [&](size_t field, int32_t value) {
    std::vector<uint8_t> wrong = bytes;
    std::memcpy(&wrong[field * 4], &value, sizeof(value));
    return [wrong] { Checkpoint::FromBytes("m.bin", wrong); };
  };
  ExpectError(kBad, "its dim would be 0", with(0, 0));
  ExpectError(kBad, "its n_layers would be -1", with(2, -1));
  ExpectError(kBad, "its vocab_size would be -2147483648", with(5, INT32_MIN));
  ExpectError(kBad, "n_heads 5", with(3, 5));
  ExpectError(kBad, "n_kv_heads 3", with(4, 3));
  ExpectError(kBad, "it has " + std::to_string(bytes.size()), with(1, 1 << 24));
}

TEST(Checkpoint, TheTokenizerOfALlama2cFileLiesBesideIt) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "llama2c_tokenizer";
  std::filesystem::create_directories(folder);
  TinyModel model;
  model.hidden_size = 32;
  model.num_qo_heads = 4;
  const auto path = folder / "m.bin";
  test::WriteWholeFile(path, test::MakeTinyLlama2c(model, 50));
  const Checkpoint checkpoint = Checkpoint::Open(path.string());
  ExpectError(ErrorKind::kIo, "tok50.bin", [&] { checkpoint.FindTokenizerFile(); });
  test::WriteWholeFile(folder / "tokenizer.bin", {});
  EXPECT_EQ(checkpoint.FindTokenizerFile(), (folder / "tokenizer.bin").string());
  test::WriteWholeFile(folder / "tok50.bin", {});
  EXPECT_EQ(checkpoint.FindTokenizerFile(), (folder / "tok50.bin").string());
  std::filesystem::remove_all(folder);
}

TEST(Checkpoint, ReadsTheDemoModel) {
  const auto path = test::ModelFile();
  FLASHINFER_SKIP_WITHOUT(path);
  const Checkpoint checkpoint = Checkpoint::Open(path.string());
  const ModelConfig& c = checkpoint.config();
  EXPECT_EQ(c.num_layers, 30);
  EXPECT_EQ(c.hidden_size, 576);
  EXPECT_EQ(c.num_qo_heads, 9);
  EXPECT_EQ(c.num_kv_heads, 3);
  EXPECT_EQ(c.vocab_size, 49152);
  EXPECT_EQ(c.rope.theta, 1e5f);
  EXPECT_EQ(checkpoint.token_embedding().format, WeightFormat::kQ8_0);
  EXPECT_EQ(checkpoint.layers()[29].up.format, WeightFormat::kQ4_1);
}

TEST(Checkpoint, ReadsStories260K) {
  const auto path = test::DataFile("stories260K/stories260K.bin");
  FLASHINFER_SKIP_WITHOUT(path);
  const Checkpoint checkpoint = Checkpoint::Open(path.string());
  EXPECT_EQ(checkpoint.config().num_layers, 5);
  EXPECT_EQ(checkpoint.config().ffn_size, 172);
  EXPECT_EQ(checkpoint.FindTokenizerFile(), test::DataFile("stories260K/tok512.bin").string());
}

}  // namespace
}  // namespace flashinfer::engine
