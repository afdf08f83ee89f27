// SPDX-License-Identifier: Apache-2.0
// Whole models: tiny ones against the oracle, real ones against recorded values, and the engine's
// promise that a request's tokens do not depend on what else runs.
#include "engine/model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/engine.h"
#include "engine/model_oracle.h"
#include "engine/vocabulary.h"
#include "flashinfer/device.h"
#include "flashinfer/error.h"
#include "support/gguf_blocks.h"
#include "support/test_files.h"
#include "support/tiny_model.h"

namespace flashinfer::engine {
namespace {

using test::TinyModel;

Checkpoint Read(const TinyModel& model) {
  return Checkpoint::FromBytes("m.gguf", test::MakeTinyGguf(model));
}

/// The CPU, and the first CUDA device where there is one. FLASHINFER_TEST_DEVICE, `cpu` or `cuda`,
/// leaves one of them.
std::vector<Device> Devices() {
  const std::string asked = test::EnvOr("FLASHINFER_TEST_DEVICE", "");
  std::vector<Device> devices;
  if (asked != "cuda") devices.push_back({});
  if (asked != "cpu" && NumCudaDevices() > 0) devices.push_back({DeviceType::kCuda, 0});
  return devices;
}

/// Logits of every token, computed in pieces of `chunk` tokens over scattered pages.
std::vector<std::vector<double>> ModelLogits(const Checkpoint& checkpoint,
                                             const std::vector<int32_t>& tokens, int32_t chunk,
                                             Device device) {
  const std::vector<int32_t> pages{5, 2, 7, 0, 3, 6};
  Model model(checkpoint, {.max_step_tokens = 32,
                           .max_requests = 32,
                           .num_pages = 8,
                           .page_size = 4,
                           .device = device});
  std::vector<std::vector<double>> all;
  const auto num_tokens = static_cast<int32_t>(tokens.size());
  for (int32_t begin = 0; begin < num_tokens; begin += chunk) {
    const int32_t end = std::min(begin + chunk, num_tokens);
    StepBatch batch;
    batch.Clear();
    for (int32_t i = begin; i < end; ++i) {
      batch.token_ids.push_back(tokens[static_cast<size_t>(i)]);
      batch.positions.push_back(i);
      batch.requests.push_back(0);
      batch.logit_rows.push_back(i - begin);
    }
    batch.qo_indptr.push_back(end - begin);
    batch.page_indices.assign(pages.begin(), pages.begin() + (end + 3) / 4);
    batch.page_indptr.push_back((end + 3) / 4);
    batch.last_page_len.push_back((end - 1) % 4 + 1);
    batch.num_decodes = end - begin == 1 ? 1 : 0;
    const TensorView logits = model.ForwardToHost(batch);
    for (int64_t row = 0; row < logits.shape(0); ++row) {
      const auto* values = logits[row].data_as<float>();
      all.emplace_back(values, values + logits.shape(1));
    }
  }
  return all;
}

void ExpectMatchesOracle(const TinyModel& tiny, Device device) {
  SCOPED_TRACE(tiny.architecture + " " + std::string(Name(tiny.format)) + " on " + Name(device));
  const Checkpoint checkpoint = Read(tiny);
  const std::vector<int32_t> tokens{3, 17, 200, 3, 99, 42, 7, 120, 64, 5, 31};
  const auto expected = test::OracleLogits(checkpoint, tokens);
  // Rounding of what the weights are multiplied with: none, to 8 bits of mantissa (bf16), or to
  // 1/127 of the largest of 32 values (blocks); f32 and f16 see that of the KV cache only.
  const double tolerance = BlockSize(tiny.format) > 1           ? 4e-2
                           : tiny.format == WeightFormat::kBF16 ? 1.6e-2
                                                                : 4e-3;
  for (int32_t chunk : {11, 4, 1}) {
    const auto actual = ModelLogits(checkpoint, tokens, chunk, device);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t t = 0; t < tokens.size(); ++t) {
      double error = 0, norm = 0;
      for (size_t i = 0; i < expected[t].size(); ++i) {
        error += std::pow(actual[t][i] - expected[t][i], 2);
        norm += std::pow(expected[t][i], 2);
      }
      // Written so that NaN fails.
      EXPECT_TRUE(std::sqrt(error / norm) < tolerance)
          << "token " << t << ", chunks of " << chunk << ": " << std::sqrt(error / norm);
    }
  }
}

class ModelTest : public testing::TestWithParam<Device> {};

TEST_P(ModelTest, EveryArchitectureAndFormatMatchesTheOracle) {
  for (const char* architecture : {"llama", "qwen2", "qwen3"}) {
    for (WeightFormat format : test::kWeightFormats) {
      TinyModel tiny;
      tiny.architecture = architecture;
      tiny.format = format;
      tiny.has_qkv_bias = tiny.architecture == "qwen2";
      ExpectMatchesOracle(tiny, GetParam());
    }
  }
}

TEST_P(ModelTest, FeaturesMatchTheOracle) {
  TinyModel factors;
  factors.has_rope_factors = true;
  ExpectMatchesOracle(factors, GetParam());
  TinyModel untied;
  untied.has_untied_output = true;
  ExpectMatchesOracle(untied, GetParam());
  TinyModel biased;
  biased.has_qkv_bias = true;
  ExpectMatchesOracle(biased, GetParam());
  TinyModel one_head;
  one_head.num_kv_heads = one_head.num_qo_heads;
  ExpectMatchesOracle(one_head, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Devices, ModelTest, testing::ValuesIn(Devices()));
// Without a device of the asked kind there is nothing to run.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ModelTest);

/// All tokens of each prompt's answer.
std::vector<std::vector<int32_t>> Answers(const Checkpoint& checkpoint,
                                          const EngineOptions& options,
                                          const std::vector<Request>& requests) {
  Engine engine(checkpoint, options);
  std::vector<std::vector<int32_t>> answers(requests.size());
  for (const Request& request : requests) engine.Submit(request);
  while (!engine.idle()) {
    for (const TokenEvent& event : engine.Step()) {
      answers[static_cast<size_t>(event.request)].push_back(event.token);
    }
  }
  return answers;
}

TEST(EngineTest, AnswersDoNotDependOnWhatElseRuns) {
  const Checkpoint checkpoint = Read({});
  std::vector<Request> requests;
  for (int32_t i = 0; i < 6; ++i) {
    Request request;
    for (int32_t t = 0; t < 20 + 7 * i; ++t) request.prompt.push_back(t < 20 ? t : 50 * i + t);
    for (int32_t& token : request.prompt) token %= 256;
    request.max_tokens = 12;
    request.sampling = {.temperature = i % 2 == 0 ? 0.0f : 0.7f, .top_k = 0, .seed = 7 + i};
    requests.push_back(request);
  }
  std::vector<std::vector<int32_t>> alone;
  alone.reserve(requests.size());
  for (const Request& request : requests) alone.push_back(Answers(checkpoint, {}, {request})[0]);
  EngineOptions small_steps;
  small_steps.scheduler.max_step_tokens = 16;
  EngineOptions no_sharing;
  no_sharing.scheduler.share_prefixes = false;
  EngineOptions few_pages = small_steps;
  few_pages.kv_bytes = 6 * Model::PageBytes(checkpoint.config(), 16);
  for (const EngineOptions& options : {EngineOptions(), small_steps, no_sharing, few_pages}) {
    EXPECT_EQ(Answers(checkpoint, options, requests), alone);
  }
}

TEST(EngineTest, RefusesWhatCannotBeServed) {
  const Checkpoint checkpoint = Read({});
  Engine engine(checkpoint, {.kv_bytes = 2 * Model::PageBytes(checkpoint.config(), 16)});
  EXPECT_THROW(engine.Submit({.prompt = {}}), Error);
  EXPECT_THROW(engine.Submit({.prompt = {-1}}), Error);
  EXPECT_THROW(engine.Submit({.prompt = {1 << 20}}), Error);
  EXPECT_THROW(engine.Submit({.prompt = std::vector<int32_t>(257, 1)}), Error);
  EXPECT_THROW(engine.Submit({.prompt = {1}, .max_tokens = 33}), Error);
  EXPECT_NO_THROW(engine.Submit({.prompt = {1}, .max_tokens = 32}));
  EXPECT_THROW(Engine(checkpoint, {.context_length = 257}), Error);
}

class RealModelTest : public testing::TestWithParam<Device> {};

TEST_P(RealModelTest, Stories260KTellsItsStory) {
  const auto path = test::DataFile("stories260K/stories260K.bin");
  FLASHINFER_SKIP_WITHOUT(path);
  const Checkpoint checkpoint = Checkpoint::Open(path.string());
  const std::unique_ptr<Tokenizer> tokenizer = LoadTokenizer(checkpoint);
  Request request;
  request.prompt = {tokenizer->special_ids().bos};
  request.max_tokens = 200;
  StreamDecoder decoder(*tokenizer, request.prompt[0]);
  std::string text;
  EngineOptions options;
  options.device = GetParam();
  const std::vector<std::vector<int32_t>> answers = Answers(checkpoint, options, {request});
  for (int32_t token : answers[0]) text += decoder.Push(token);
  text += decoder.Finish();
  EXPECT_EQ(text + "\n", test::ReadWholeFile(test::DataFile("stories260K/greedy_200.txt")));
}

INSTANTIATE_TEST_SUITE_P(Devices, RealModelTest, testing::ValuesIn(Devices()));
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RealModelTest);

class SmolLm2Test : public testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    FLASHINFER_SKIP_WITHOUT(test::ModelFile());
    FLASHINFER_SKIP_WITHOUT(test::DataFile("smollm2/expected.json"));
    std::ifstream(test::DataFile("smollm2/expected.json")) >> expected_;
    checkpoint_.emplace(Checkpoint::Open(test::ModelFile().string()));
    options_.device = GetParam();
  }
  nlohmann::json expected_;
  std::optional<Checkpoint> checkpoint_;
  EngineOptions options_;
};

INSTANTIATE_TEST_SUITE_P(Devices, SmolLm2Test, testing::ValuesIn(Devices()));
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SmolLm2Test);

TEST_P(SmolLm2Test, LikelihoodOfThePassage) {
  FLASHINFER_SKIP_WITHOUT(test::DataFile("smollm2/passage.txt"));
  const std::string text = test::ReadWholeFile(test::DataFile("smollm2/passage.txt"));
  const auto ids = LoadTokenizer(*checkpoint_)->Encode(text, SpecialTokens::kPlain);
  Engine engine(*checkpoint_, options_);
  EXPECT_NEAR(engine.MeanNll(ids), expected_["passage"]["mean_nll_nats"].get<double>(), 0.02);
}

TEST_P(SmolLm2Test, LikeliestNextTokens) {
  for (const auto& chat : expected_["chat"]) {
    const double first = chat["next"][0]["p"], second = chat["next"][1]["p"];
    if (first < 1.2 * second) continue;
    Request request;
    request.prompt = chat["prompt_ids"].get<std::vector<int32_t>>();
    request.max_tokens = 1;
    EXPECT_EQ(Answers(*checkpoint_, options_, {request})[0][0],
              chat["next"][0]["id"].get<int32_t>())
        << chat["user"];
  }
}

}  // namespace
}  // namespace flashinfer::engine
