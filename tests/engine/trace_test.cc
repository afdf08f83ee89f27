// SPDX-License-Identifier: Apache-2.0
// Traces: what is read, what is refused with its line, and what the generator makes.
#include "engine/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "engine/error_matchers.h"
#include "support/test_files.h"

namespace flashinfer::engine {
namespace {

using test::ExpectError;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<TraceRequest> ReadAll(TraceReader reader) {
  std::vector<TraceRequest> requests;
  while (auto request = reader.Next()) requests.push_back(*request);
  EXPECT_EQ(reader.Next(), std::nullopt);  // the end stays the end
  return requests;
}

std::vector<TraceRequest> Read(const std::string& text) {
  return ReadAll(TraceReader("t", std::make_unique<std::istringstream>(text)));
}

void ExpectRefused(const std::string& words, const std::string& text) {
  SCOPED_TRACE(text.substr(0, 200));
  ExpectError(ErrorKind::kInvalidArgument, words, [&] { Read(text); });
}

TEST(Trace, ReadsMooncake) {
  const auto requests =
      Read(R"({"timestamp": 0, "input_length": 1025, "output_length": 3, "hash_ids": [7, 8, 900]})"
           "\n\n"
           R"({"output_length": 0, "input_length": 5, "timestamp": 1500.5, "more": {"a": [1]}})");
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].arrival_s, 0);
  EXPECT_EQ(requests[0].input_length, 1025);
  EXPECT_EQ(requests[0].output_length, 3);
  EXPECT_THAT(requests[0].prefix_hashes, ElementsAre(7, 8, 900));
  EXPECT_EQ(requests[0].block_size, 512);
  EXPECT_EQ(requests[1].arrival_s, 1.5005);
  EXPECT_EQ(requests[1].block_size, 0);
  EXPECT_THAT(requests[1].prefix_hashes, IsEmpty());
}

TEST(Trace, ReadsAzure) {
  const auto requests = Read(
      "\xef\xbb\xbfTIMESTAMP,ContextTokens,GeneratedTokens\r\n"
      "2023-12-31 23:59:59.9799600,4808,10\r\n"
      "2024-01-01 00:00:00.0319600+00:00,3180,0\r\n"
      "2024-03-01 00:00:01,1,2");
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[0].arrival_s, 0);
  EXPECT_EQ(requests[0].input_length, 4808);
  EXPECT_EQ(requests[0].output_length, 10);
  EXPECT_NEAR(requests[1].arrival_s, 0.052, 1e-9);
  EXPECT_NEAR(requests[2].arrival_s, 60 * 86400 + 1.02004, 1e-6);  // over 29 February
  EXPECT_EQ(requests[2].block_size, 0);
}

TEST(Trace, AnEmptyTraceHasNoRequests) {
  EXPECT_THAT(Read(""), IsEmpty());
  EXPECT_THAT(Read("\n \r\n"), IsEmpty());
  EXPECT_THAT(Read("\xef\xbb\xbf\n"), IsEmpty());  // a byte order mark alone
  EXPECT_THAT(Read("TIMESTAMP,ContextTokens,GeneratedTokens"), IsEmpty());
}

TEST(Trace, BadMooncakeLinesAreNamed) {
  const std::string good = R"({"timestamp": 5, "input_length": 1, "output_length": 1})";
  ExpectRefused("t: line 3 is no JSON object", good + "\n\n{");
  ExpectRefused("line 2 is no JSON object", good + "\n[1]");
  ExpectRefused("line 1 is 'hello'", "hello");
  ExpectRefused("line 2 arrives at 0.004 s, 0.005",
                good + "\n" + R"({"timestamp": 4, "input_length": 1, "output_length": 1})");
  ExpectRefused("arrives at -1 s",
                R"({"timestamp": -1000, "input_length": 1, "output_length": 1})");
  ExpectRefused("arrives at 1e+", R"({"timestamp": 1e300, "input_length": 1, "output_length": 1})");
  ExpectRefused("is no JSON", R"({"timestamp": 1e999, "input_length": 1, "output_length": 1})");
  ExpectRefused("'timestamp' is no number",
                R"({"timestamp": "1", "input_length": 1, "output_length": 1})");
  ExpectRefused("has no 'output_length'", R"({"timestamp": 0, "input_length": 1})");
  ExpectRefused("input_length is 0, 1 to",
                R"({"timestamp": 0, "input_length": 0, "output_length": 1})");
  ExpectRefused("output_length is -1, 0 to",
                R"({"timestamp": 0, "input_length": 1, "output_length": -1})");
  ExpectRefused("input_length is 2000000000, 1 to",
                R"({"timestamp": 0, "input_length": 2000000000, "output_length": 1})");
  ExpectRefused("'input_length' is no integer that fits",
                R"({"timestamp": 0, "input_length": 18446744073709551615, "output_length": 1})");
  ExpectRefused("'input_length' is no integer that fits",
                R"({"timestamp": 0, "input_length": 1.5, "output_length": 1})");
  const std::string with_hashes =
      R"({"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": )";
  ExpectRefused("'hash_ids' has 2 elements, 512 tokens of input are 1 blocks",
                with_hashes + "[1, 2]}");
  ExpectRefused("'hash_ids' holds something else", with_hashes + "[-1]}");
  ExpectRefused("'hash_ids' is no array", with_hashes + "3}");
  ExpectRefused("nested more than", with_hashes + std::string(100000, '['));
  ExpectRefused("line 1 is longer than 1048576 bytes", with_hashes + std::string(1 << 20, ' '));
}

TEST(Trace, BadAzureLinesAreNamed) {
  const auto expect = [](const std::string& words, const std::string& line) {
    ExpectRefused("t: line 2 " + words, "TIMESTAMP,ContextTokens,GeneratedTokens\n" + line);
  };
  expect("is '2023-11-16 18:17:03,1', three fields", "2023-11-16 18:17:03,1");
  expect("is '2023-11-16 18:17:03,1,2,3'", "2023-11-16 18:17:03,1,2,3");
  expect("ContextTokens is '1x'", "2023-11-16 18:17:03,1x,2");
  expect("ContextTokens is ''", "2023-11-16 18:17:03,,2");
  expect("ContextTokens is 0, 1 to", "2023-11-16 18:17:03,0,2");
  expect("GeneratedTokens is -2", "2023-11-16 18:17:03,1,-2");
  expect("GeneratedTokens is '99999999999999999999'", "2023-11-16 18:17:03,1,99999999999999999999");
  for (const char* time :
       {"", "2023-11-16", "2023-02-29 18:17:03", "2023-13-01 00:00:00", "2023-11-16 24:00:00",
        "2023-11-16 18:17:03.", "2023-11-16T18:17:03", "2023-11-16 18:17:03.1234567890",
        "2023-11-16 18:17:03+01:00", "2o23-11-16 18:17:03"}) {
    expect("TIMESTAMP is '" + std::string(time) + "'", std::string(time) + ",1,2");
  }
  ExpectRefused("line 3 arrives at -1 s",
                "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,1,2\n"
                "2023-11-16 18:17:02,1,2");
}

TEST(Trace, UnreadableFilesAreIoErrors) {
  ExpectError(ErrorKind::kIo, "/nowhere/t: cannot be read",
              [] { TraceReader::Open("/nowhere/t"); });
  ExpectError(ErrorKind::kIo, "cannot be read", [] { TraceReader::Open("/"); });
}

TEST(Trace, ReadsTheRealTraces) {
  const struct {
    const char* name;
    size_t num_requests;
    double last_arrival_s;
    int64_t num_input_tokens;
  } traces[] = {
      {"mooncake_conversation_first1500.jsonl", 1500, 509.999, 20981721},
      {"mooncake_synthetic_first800.jsonl", 800, 221.2, 9403832},
      {"AzureLLMInferenceTrace_code_2023.csv", 8819, 3435.948056, 18059974},
      {"AzureLLMInferenceTrace_conv_2023_first6000.csv", 6000, 1202.186033, 6903766},
  };
  for (const auto& trace : traces) {
    const auto path = test::DataFile(std::string("traces/") + trace.name);
    FLASHINFER_SKIP_WITHOUT(path);
    const auto requests = ReadAll(TraceReader::Open(path.string()));
    ASSERT_EQ(requests.size(), trace.num_requests) << trace.name;
    EXPECT_NEAR(requests.back().arrival_s, trace.last_arrival_s, 1e-6);
    int64_t num_input_tokens = 0;
    for (const TraceRequest& request : requests) num_input_tokens += request.input_length;
    EXPECT_EQ(num_input_tokens, trace.num_input_tokens);
  }
}

TEST(SyntheticTrace, HasTheStatisticsThatWereAskedFor) {
  const SyntheticTraceOptions options{.num_requests = 20000,
                                      .requests_per_s = 5,
                                      .median_input_length = 2000,
                                      .max_length = 1 << 20,
                                      .seed = 11};
  const auto requests = MakeSyntheticTrace(options);
  ASSERT_EQ(requests.size(), 20000u);
  std::vector<double> inputs, outputs;
  double log_variance = 0;
  double last_arrival_s = 0;
  for (const TraceRequest& r : requests) {
    EXPECT_GE(r.arrival_s, last_arrival_s);
    last_arrival_s = r.arrival_s;
    inputs.push_back(static_cast<double>(r.input_length));
    outputs.push_back(static_cast<double>(r.output_length));
    log_variance += std::pow(std::log(inputs.back() / 2000), 2) / 20000;
    EXPECT_EQ(static_cast<int64_t>(r.prefix_hashes.size()), (r.input_length + 511) / 512);
  }
  // Five standard errors of 20,000 draws.
  EXPECT_NEAR(last_arrival_s, 4000, 4000 * 5 / std::sqrt(20000.0));
  std::ranges::nth_element(inputs, inputs.begin() + 10000);
  std::ranges::nth_element(outputs, outputs.begin() + 10000);
  EXPECT_NEAR(inputs[10000], 2000, 2000 * 0.8 * 5 * 1.2533 / std::sqrt(20000.0));
  EXPECT_NEAR(outputs[10000], 128, 128 * 0.6 * 5 * 1.2533 / std::sqrt(20000.0) + 1);
  EXPECT_NEAR(std::sqrt(log_variance), 0.8, 0.8 * 5 / std::sqrt(40000.0));
}

TEST(SyntheticTrace, HalfOfTheRequestsSharePrefixesOfWholeBlocks) {
  const auto requests = MakeSyntheticTrace({.num_requests = 4000, .seed = 5});
  std::map<uint64_t, int> num_uses;  // of first blocks
  for (const TraceRequest& r : requests) ++num_uses[r.prefix_hashes.front()];
  int num_sharing = 0;
  for (const auto& [hash, uses] : num_uses) num_sharing += uses > 1 ? uses : 0;
  // Requests shorter than a block share nothing: with a median of 1024 and sigma 0.8 that is
  // P(N < ln(1/2) / 0.8) = 19 % of them.
  EXPECT_NEAR(num_sharing / 4000.0, 0.5 * 0.81, 0.05);
  // An id always has the same id before it: it stands for the whole prompt up to there.
  std::map<uint64_t, uint64_t> before;
  for (const TraceRequest& r : requests) {
    for (size_t i = 1; i < r.prefix_hashes.size(); ++i) {
      const auto [at, is_first] = before.emplace(r.prefix_hashes[i], r.prefix_hashes[i - 1]);
      EXPECT_TRUE(is_first || at->second == r.prefix_hashes[i - 1]);
    }
  }
}

TEST(SyntheticTrace, IsWrittenAsMooncakeAndReadBack) {
  const SyntheticTraceOptions options{.num_requests = 300, .seed = 9};
  auto requests = MakeSyntheticTrace(options);
  EXPECT_EQ(requests, MakeSyntheticTrace(options));
  EXPECT_NE(requests, MakeSyntheticTrace({.num_requests = 300, .seed = 10}));
  std::ostringstream text;
  WriteMooncakeTrace(text, requests);
  auto read = Read(text.str());
  ASSERT_EQ(read.size(), requests.size());
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT_NEAR(read[i].arrival_s, requests[i].arrival_s, 0.00051);
    read[i].arrival_s = requests[i].arrival_s;
  }
  EXPECT_EQ(read, requests);
  requests[0].block_size = 16;
  ExpectError(ErrorKind::kInvalidArgument, "block_size is 16",
              [&] { WriteMooncakeTrace(text, requests); });
}

TEST(SyntheticTrace, BadOptionsAreNamed) {
  const auto expect = [](const std::string& words, const SyntheticTraceOptions& options) {
    ExpectError(ErrorKind::kInvalidArgument, words, [&] { MakeSyntheticTrace(options); });
  };
  expect("num_requests is -1", {.num_requests = -1});
  expect("requests_per_s is 0", {.requests_per_s = 0});
  expect("median_input_length is nan", {.median_input_length = std::nan("")});
  expect("shared_share is 2", {.shared_share = 2});
  EXPECT_THAT(MakeSyntheticTrace({.num_requests = 0}), IsEmpty());
  EXPECT_EQ(MakeSyntheticTrace({.num_requests = 3, .num_shared_prefixes = 0}).size(), 3u);
}

}  // namespace
}  // namespace flashinfer::engine
