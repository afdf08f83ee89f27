// SPDX-License-Identifier: Apache-2.0
// Tokenizers and chat templates out of GGUF files that the test writes.
#include "engine/gguf_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/byte_alphabet.h"
#include "flashinfer/error.h"
#include "support/gguf_writer.h"

namespace flashinfer::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int32_t kBegin = 256;
constexpr int32_t kEndOfTurn = 257;
constexpr int32_t kAb = 258;

/// All bytes, two control tokens and one merge.
test::GgufWriter Vocabulary() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte)
    tokens.push_back(EncodeByteAlphabet(std::string(1, static_cast<char>(byte))));
  std::vector<int32_t> types(256, 1);
  for (const char* name : {"<|begin|>", "<|eot_id|>"}) {
    tokens.emplace_back(name);
    types.push_back(3);
  }
  tokens.emplace_back("ab");
  types.push_back(1);
  test::GgufWriter writer;
  writer.Set("tokenizer.ggml.model", "gpt2");
  writer.Set("tokenizer.ggml.pre", "llama-bpe");
  writer.Set("tokenizer.ggml.tokens", tokens);
  writer.Set("tokenizer.ggml.token_type", types);
  writer.Set("tokenizer.ggml.merges", std::vector<std::string>{"a b"});
  return writer;
}

GgufFile Open(const test::GgufWriter& writer) {
  return GgufFile::FromBytes("tiny.gguf", writer.Bytes());
}

std::string Failure(const test::GgufWriter& writer, ErrorKind kind) {
  try {
    ReadTokenizer(Open(writer));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "read";
}

TEST(GgufTokenizerTest, ReadsVocabularyAndSpecialIds) {
  test::GgufWriter writer = Vocabulary();
  writer.Set("tokenizer.ggml.bos_token_id", uint32_t{kBegin});
  writer.Set("tokenizer.ggml.eos_token_id", uint32_t{0});
  const auto tokenizer = ReadTokenizer(Open(writer));  // and the file is gone
  EXPECT_EQ(tokenizer->vocab_size(), 259);
  EXPECT_THAT(tokenizer->Encode("ab<|begin|>b", SpecialTokens::kParse),
              ElementsAre(kAb, kBegin, 'b'));
  const SpecialIds& special = tokenizer->special_ids();
  EXPECT_EQ(special.bos, kBegin);
  EXPECT_EQ(special.eos, 0);
  EXPECT_EQ(special.eot, kEndOfTurn);
  EXPECT_THAT(special.end_ids, ElementsAre(0, kEndOfTurn));
  EXPECT_TRUE(special.add_bos) << "as llama-bpe models do";
}

TEST(GgufTokenizerTest, FileDecidesOverDefaults) {
  test::GgufWriter writer = Vocabulary();
  writer.Set("tokenizer.ggml.add_bos_token", false);
  writer.Set("tokenizer.ggml.eot_token_id", uint32_t{kAb});
  const auto tokenizer = ReadTokenizer(Open(writer));
  EXPECT_FALSE(tokenizer->special_ids().add_bos);
  EXPECT_EQ(tokenizer->special_ids().eot, kAb);
  EXPECT_EQ(tokenizer->special_ids().bos, -1);
}

TEST(GgufTokenizerTest, NamesWhatItDoesNotRead) {
  test::GgufWriter writer;
  writer.Set("tokenizer.ggml.model", "llama");
  EXPECT_THAT(Failure(writer, ErrorKind::kUnsupported),
              HasSubstr("tiny.gguf: tokenizer.ggml.model is 'llama'; supported is 'gpt2'"));
  EXPECT_THAT(Failure(test::GgufWriter(), ErrorKind::kInvalidArgument),
              HasSubstr("tokenizer.ggml.model"));
  writer = {};
  writer.Set("tokenizer.ggml.model", "gpt2");
  writer.Set("tokenizer.ggml.tokens", std::vector<std::string>{"a"});
  EXPECT_THAT(Failure(writer, ErrorKind::kInvalidArgument), HasSubstr("tokenizer.ggml.merges"));
  writer.Set("tokenizer.ggml.merges", std::vector<std::string>{});
  writer.Set("tokenizer.ggml.pre", "tekken");
  EXPECT_THAT(Failure(writer, ErrorKind::kUnsupported), HasSubstr("'tekken'"));
}

TEST(GgufTokenizerTest, RefusesIdsAndTypesOutOfRange) {
  test::GgufWriter writer = Vocabulary();
  writer.Set("tokenizer.ggml.bos_token_id", uint32_t{259});
  EXPECT_THAT(Failure(writer, ErrorKind::kInvalidArgument), HasSubstr("bos_token_id: is 259"));
  writer = Vocabulary();
  writer.Set("tokenizer.ggml.eos_token_id", uint32_t{0xFFFFFFFF});
  EXPECT_THAT(Failure(writer, ErrorKind::kInvalidArgument),
              HasSubstr("tokenizer.ggml.eos_token_id has 4294967295"));
  writer = {};
  writer.Set("tokenizer.ggml.model", "gpt2");
  writer.Set("tokenizer.ggml.tokens", std::vector<std::string>{"a"});
  writer.Set("tokenizer.ggml.token_type", std::vector<int32_t>{7});
  EXPECT_THAT(Failure(writer, ErrorKind::kInvalidArgument),
              HasSubstr("tokenizer.ggml.token_type has 7"));
}

TEST(GgufTokenizerTest, ReadsTheChatTemplate) {
  test::GgufWriter writer = Vocabulary();
  EXPECT_FALSE(ReadChatTemplate(Open(writer)).has_value());
  writer.Set("tokenizer.chat_template", "<|begin|>{{ messages[0].content }}");
  const auto chat = ReadChatTemplate(Open(writer));
  ASSERT_TRUE(chat.has_value());
  EXPECT_THAT(chat->Render({{{"user", "<|begin|>"}}, "", "", true}),
              ElementsAre(Segment{"<|begin|>", SpecialTokens::kParse},
                          Segment{"<|begin|>", SpecialTokens::kPlain}));
}

}  // namespace
}  // namespace flashinfer::engine
