// SPDX-License-Identifier: Apache-2.0
// Streaming of text and the check of UTF-8.
#include "engine/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "engine/text_generators.h"
#include "engine/utf8.h"
#include "flashinfer/error.h"

namespace flashinfer::engine {
namespace {

/// Token i is byte i; 256 is BOS, 257 is " a", which loses its space after BOS.
class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer() {
    for (int byte = 0; byte < 256; ++byte) tokens_.emplace_back(1, static_cast<char>(byte));
    tokens_.emplace_back("<s>");
    tokens_.emplace_back(" a");
    special_ids_.bos = 256;
    special_ids_.end_ids = {10, 256};
  }
  using Tokenizer::Decode;
  using Tokenizer::Encode;
  std::vector<int32_t> Encode(std::span<const Segment>) const override { return {}; }
  std::string_view Decode(int32_t id) const override { return tokens_.at(id); }
  bool DropsSpaceAfterBos() const override { return true; }
  int32_t vocab_size() const override { return 258; }
  const SpecialIds& special_ids() const override { return special_ids_; }
  bool IsSpecial(int32_t id) const override { return id == 256; }
  int32_t FindToken(std::string_view) const override { return -1; }

 private:
  std::vector<std::string> tokens_;
  SpecialIds special_ids_;
};

/// What each byte of `text` makes the decoder emit, and what Finish does.
std::vector<std::string> Stream(std::string_view text) {
  const ByteTokenizer tokenizer;
  StreamDecoder decoder(tokenizer);
  std::vector<std::string> pieces;
  for (const char c : text) pieces.push_back(decoder.Push(static_cast<unsigned char>(c)));
  pieces.push_back(decoder.Finish());
  return pieces;
}

TEST(StreamDecoderTest, HoldsBackIncompleteCharacters) {
  using testing::ElementsAre;
  EXPECT_THAT(Stream("a\u00E9"), ElementsAre("a", "", "\u00E9", ""));
  EXPECT_THAT(Stream("\U0001F600"), ElementsAre("", "", "", "\U0001F600", ""));
  EXPECT_THAT(Stream("\xF0\x9F"), ElementsAre("", "", "\uFFFD"));
}

TEST(StreamDecoderTest, ReplacesWhatCannotBecomeACharacter) {
  using testing::ElementsAre;
  EXPECT_THAT(Stream("\xFF"), ElementsAre("\uFFFD", ""));
  EXPECT_THAT(Stream("\xC3z"), ElementsAre("", "\uFFFDz", ""));
  EXPECT_THAT(Stream("\xE2\x82z"), ElementsAre("", "", "\uFFFDz", ""));
  EXPECT_THAT(Stream("\xED\xA0\x80"), ElementsAre("", "\uFFFD\uFFFD", "\uFFFD", ""));
  EXPECT_THAT(Stream("\xC0\x80"), ElementsAre("\uFFFD", "\uFFFD", ""));
}

TEST(StreamDecoderTest, GivesNoTextForSpecialTokensAndDropsTheFirstSpace) {
  const ByteTokenizer tokenizer;
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.Push(256), "");
  EXPECT_EQ(decoder.Push(257), "a");
  EXPECT_EQ(decoder.Push(257), " a");
  EXPECT_EQ(StreamDecoder(tokenizer, 256).Push(257), "a");
  EXPECT_EQ(StreamDecoder(tokenizer, 'x').Push(257), " a");
  const std::vector<int32_t> ids = {256, 257, 257};
  EXPECT_EQ(tokenizer.Decode(ids), "<s>a a");
}

TEST(StreamDecoderTest, EmitsValidTextAndKeepsAllThatIsValid) {
  EXPECT_TRUE(rc::check("any bytes give UTF-8; UTF-8 comes through", [] {
    const std::string text = *test::AnyBytes();
    std::string streamed;
    for (const std::string& piece : Stream(text)) {
      CheckUtf8("piece", piece);
      streamed += piece;
    }
    bool valid = true;
    for (size_t i = 0; i < text.size();) {
      const Utf8Char next = DecodeUtf8(text, i);
      valid &= next.form == Utf8Form::kValid;
      i += next.num_bytes;
    }
    if (valid) RC_ASSERT(streamed == text);
  }));
}

TEST(TokenizerTest, EndsGenerationAtTheListedIds) {
  const ByteTokenizer tokenizer;
  EXPECT_TRUE(tokenizer.EndsGeneration(10));
  EXPECT_TRUE(tokenizer.EndsGeneration(256));
  EXPECT_FALSE(tokenizer.EndsGeneration(11));
}

TEST(CheckUtf8Test, AcceptsEveryCharacter) {
  std::string text;
  for (uint32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    text.clear();
    test::AppendUtf8(text, c);
    const Utf8Char decoded = DecodeUtf8(text, 0);
    ASSERT_EQ(decoded.code_point, static_cast<int32_t>(c));
    ASSERT_EQ(decoded.num_bytes, std::ssize(text));
    ASSERT_NO_THROW(CheckUtf8("text", text));
  }
}

TEST(CheckUtf8Test, NamesTheFirstBadByte) {
  const auto message = [](std::string_view text) -> std::string {
    try {
      CheckUtf8("--prompt", text);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(message("ab\xFF"), testing::StartsWith("--prompt: byte 2 is 0xff"));
  EXPECT_THAT(message("\u00E9\x80"), testing::StartsWith("--prompt: byte 2 is 0x80"));
  EXPECT_THAT(message("a\xE2\x82"), testing::StartsWith("--prompt: byte 1 is 0xe2"));
  EXPECT_THAT(message("\xED\xA0\x80"), testing::StartsWith("--prompt: byte 0 is 0xed"));
  EXPECT_THAT(message("\xF4\x90\x80\x80"), testing::StartsWith("--prompt: byte 0 is 0xf4"));
  EXPECT_THAT(message("\xE0\x80\x80"), testing::StartsWith("--prompt: byte 0 is 0xe0"));
}

}  // namespace
}  // namespace flashinfer::engine
