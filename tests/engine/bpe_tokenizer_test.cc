// SPDX-License-Identifier: Apache-2.0
// Byte-level BPE over a tiny vocabulary, against a merge loop written as its definition says.
#include "engine/bpe_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>

#include "engine/byte_alphabet.h"
#include "engine/pre_tokenizer.h"
#include "engine/text_generators.h"
#include "flashinfer/error.h"

namespace flashinfer::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int32_t kEnd = 256;
constexpr int32_t kTool = 257;
constexpr int32_t kFirstMerge = 258;

/// Merges as byte strings, in order; their results are tokens from kFirstMerge on.
const std::vector<std::pair<std::string, std::string>> kMerges = {
    {"a", "b"}, {"b", "a"}, {"ab", "ab"}, {" ", "a"},       {" a", "b"},
    {"a", "a"}, {"1", "2"}, {"ab", "a"},  {"\xC3", "\xA9"}, {"aa", "aa"}};

/// All 256 bytes, a control token, a user-defined token and kMerges.
BpeVocabulary TinyVocabulary() {
  BpeVocabulary vocabulary;
  vocabulary.pre_tokenizer = "gpt-2";
  const auto add = [&](std::string token, TokenType type) {
    vocabulary.tokens.push_back(std::move(token));
    vocabulary.types.push_back(type);
  };
  for (int byte = 0; byte < 256; ++byte)
    add(EncodeByteAlphabet(std::string(1, static_cast<char>(byte))), TokenType::kNormal);
  add("<|end|>", TokenType::kControl);
  add("<tool>", TokenType::kUserDefined);
  for (const auto& [left, right] : kMerges) {
    add(EncodeByteAlphabet(left + right), TokenType::kNormal);
    vocabulary.merges.push_back(EncodeByteAlphabet(left) + " " + EncodeByteAlphabet(right));
  }
  vocabulary.special_ids.eos = kEnd;
  return vocabulary;
}

/// BPE as defined: apply the first rule that applies anywhere, leftmost, until none does.
std::vector<int32_t> NaiveEncode(std::string_view text, SplitRule rule) {
  std::vector<int32_t> ids;
  for (const std::string_view word : SplitIntoWords(rule, text)) {
    std::vector<std::string> symbols;
    for (const char c : word) symbols.emplace_back(1, c);
    for (bool merged = true; merged;) {
      merged = false;
      for (const auto& [left, right] : kMerges) {
        for (size_t i = 0; i + 1 < symbols.size() && !merged; ++i) {
          if (symbols[i] != left || symbols[i + 1] != right) continue;
          symbols[i] += symbols[i + 1];
          symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(i) + 1);
          merged = true;
        }
        if (merged) break;
      }
    }
    for (const std::string& symbol : symbols) {
      int32_t id = symbol.size() == 1 ? static_cast<unsigned char>(symbol[0]) : -1;
      for (size_t i = 0; i < kMerges.size() && id < 0; ++i)
        if (kMerges[i].first + kMerges[i].second == symbol)
          id = kFirstMerge + static_cast<int32_t>(i);
      ids.push_back(id);
    }
  }
  return ids;
}

std::string MessageOf(BpeVocabulary vocabulary, ErrorKind kind) {
  try {
    BpeTokenizer tokenizer(std::move(vocabulary));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "accepted";
}

TEST(BpeTokenizerTest, MergesAsDefined) {
  const BpeTokenizer tokenizer(TinyVocabulary());
  EXPECT_THAT(tokenizer.Encode("abab", SpecialTokens::kPlain), ElementsAre(kFirstMerge + 2));
  EXPECT_THAT(tokenizer.Encode("aab", SpecialTokens::kPlain), ElementsAre('a', kFirstMerge));
  EXPECT_THAT(tokenizer.Encode("x\u00E9", SpecialTokens::kPlain),
              ElementsAre('x', kFirstMerge + 8));
  EXPECT_TRUE(rc::check("equals the naive loop", [&] {
    const auto letters = rc::gen::element<std::string>("a", "a", "b", " ", "1", "2", "\u00E9");
    const std::string text = *test::Joined(letters);
    RC_ASSERT(tokenizer.Encode(text, SpecialTokens::kPlain) == NaiveEncode(text, SplitRule::kGpt2));
  }));
}

TEST(BpeTokenizerTest, DecodesWhatItEncodes) {
  for (const char* name : {"gpt-2", "smollm", "llama-bpe", "qwen2", "default"}) {
    BpeVocabulary vocabulary = TinyVocabulary();
    vocabulary.pre_tokenizer = name;
    const BpeTokenizer tokenizer(std::move(vocabulary));
    EXPECT_TRUE(rc::check(std::string("any bytes come back: ") + name, [&] {
      const std::string text = *rc::gen::oneOf(test::AnyUtf8(), test::AnyBytes());
      RC_ASSERT(tokenizer.Decode(tokenizer.Encode(text, SpecialTokens::kPlain)) == text);
      RC_ASSERT(tokenizer.Decode(tokenizer.Encode(text, SpecialTokens::kParse)) == text);
    }));
  }
}

TEST(BpeTokenizerTest, OnlyParsedTextYieldsSpecialTokens) {
  const BpeTokenizer tokenizer(TinyVocabulary());
  EXPECT_THAT(tokenizer.Encode("b<|end|>1", SpecialTokens::kParse), ElementsAre('b', kEnd, '1'));
  EXPECT_THAT(tokenizer.Encode("<tool><|end|>", SpecialTokens::kPlain),
              ElementsAre(kTool, '<', '|', 'e', 'n', 'd', '|', '>'));
  EXPECT_TRUE(rc::check("plain text has no special token", [&] {
    const std::string text = *test::AnyBytes();
    for (const int32_t id : tokenizer.Encode(text, SpecialTokens::kPlain))
      RC_ASSERT(!tokenizer.IsSpecial(id));
  }));
}

TEST(BpeTokenizerTest, RulesThatSpellAControlTokenDoNotYieldIt) {
  BpeVocabulary vocabulary = TinyVocabulary();
  vocabulary.pre_tokenizer = "llama-bpe";  // takes whole words that are tokens
  vocabulary.tokens.emplace_back("stop");
  vocabulary.types.push_back(TokenType::kControl);
  for (const char* rule : {"s t", "o p", "st op"}) vocabulary.merges.emplace_back(rule);
  const BpeTokenizer tokenizer(std::move(vocabulary));
  EXPECT_THAT(tokenizer.Encode("stop", SpecialTokens::kPlain), ElementsAre('s', 't', 'o', 'p'));
  EXPECT_THAT(tokenizer.Encode("stop", SpecialTokens::kParse),
              ElementsAre(kFirstMerge + static_cast<int32_t>(kMerges.size())));
}

TEST(BpeTokenizerTest, CutsBetweenSegmentsDoNotChangeIds) {
  const BpeTokenizer tokenizer(TinyVocabulary());
  EXPECT_TRUE(rc::check("segments of one kind are one text", [&] {
    const std::string text = *test::AnyBytes();
    const auto kind = *rc::gen::element(SpecialTokens::kPlain, SpecialTokens::kParse);
    const size_t cut = *rc::gen::inRange<size_t>(0, text.size() + 1);
    const std::vector<Segment> segments = {{text.substr(0, cut), kind}, {text.substr(cut), kind}};
    RC_ASSERT(tokenizer.Encode(segments) == tokenizer.Encode(text, kind));
  }));
  // A word may span template and user text; a special token must not.
  const std::vector<Segment> word = {{"a", SpecialTokens::kParse}, {"b", SpecialTokens::kPlain}};
  EXPECT_THAT(tokenizer.Encode(word), ElementsAre(kFirstMerge));
  const std::vector<Segment> name = {{"<|e", SpecialTokens::kParse},
                                     {"nd|>", SpecialTokens::kPlain},
                                     {"<|end|>", SpecialTokens::kParse}};
  EXPECT_THAT(tokenizer.Encode(name), ElementsAre('<', '|', 'e', 'n', 'd', '|', '>', kEnd));
}

TEST(BpeTokenizerTest, TakesTheLongestNameAtAPlace) {
  BpeVocabulary vocabulary = TinyVocabulary();
  for (const char* name : {"<tool>s", "<to", ""}) {
    vocabulary.tokens.emplace_back(name);
    vocabulary.types.push_back(TokenType::kUserDefined);
  }
  const auto size = static_cast<int32_t>(vocabulary.tokens.size());
  const BpeTokenizer tokenizer(std::move(vocabulary));
  EXPECT_THAT(tokenizer.Encode("<tool>s<tool><to<t", SpecialTokens::kPlain),
              ElementsAre(size - 3, kTool, size - 2, '<', 't'));
}

TEST(BpeTokenizerTest, ByteWithoutTokenYieldsNothing) {
  BpeVocabulary vocabulary = TinyVocabulary();
  vocabulary.tokens['b'] = "unreachable";
  const BpeTokenizer tokenizer(std::move(vocabulary));
  EXPECT_THAT(tokenizer.Encode("xbx", SpecialTokens::kPlain), ElementsAre('x', 'x'));
}

TEST(BpeTokenizerTest, MergeWhoseResultIsNoTokenFallsBackToBytes) {
  BpeVocabulary vocabulary = TinyVocabulary();
  vocabulary.merges.emplace_back("x y");
  const BpeTokenizer tokenizer(std::move(vocabulary));
  EXPECT_THAT(tokenizer.Encode("xy", SpecialTokens::kPlain), ElementsAre('x', 'y'));
}

TEST(BpeTokenizerTest, LongWordsTakeNoQuadraticTime) {
  const BpeTokenizer tokenizer(TinyVocabulary());
  const std::string text(1 << 20, 'a');  // the naive loop would take hours
  EXPECT_EQ(tokenizer.Encode(text, SpecialTokens::kPlain).size(), text.size() / 4);
}

TEST(BpeTokenizerTest, FindsTokensAndEnds) {
  const BpeTokenizer tokenizer(TinyVocabulary());
  EXPECT_EQ(tokenizer.FindToken("<|end|>"), kEnd);
  EXPECT_EQ(tokenizer.FindToken(" ab"), kFirstMerge + 4);
  EXPECT_EQ(tokenizer.FindToken("<|end"), -1);
  EXPECT_EQ(tokenizer.special_ids().eot, kEnd);
  EXPECT_THAT(tokenizer.special_ids().end_ids, ElementsAre(kEnd));
  EXPECT_TRUE(tokenizer.IsSpecial(kEnd));
  EXPECT_FALSE(tokenizer.IsSpecial(kTool));
  EXPECT_THROW(tokenizer.Decode(-1), Error);
  EXPECT_THROW(tokenizer.Decode(tokenizer.vocab_size()), Error);
}

TEST(BpeTokenizerTest, RefusesVocabulariesThatContradictThemselves) {
  const auto invalid = ErrorKind::kInvalidArgument;
  BpeVocabulary vocabulary = TinyVocabulary();
  vocabulary.types.pop_back();
  EXPECT_THAT(MessageOf(vocabulary, invalid), HasSubstr("tokenizer.ggml.token_type: has 267"));
  vocabulary = TinyVocabulary();
  vocabulary.merges[3] = "nospace";
  EXPECT_THAT(MessageOf(vocabulary, invalid), HasSubstr("merges: entry 3 is 'nospace'"));
  vocabulary = TinyVocabulary();
  vocabulary.special_ids.bos = 268;
  EXPECT_THAT(MessageOf(vocabulary, invalid), HasSubstr("bos_token_id: is 268"));
  vocabulary = TinyVocabulary();
  vocabulary.tokens.clear();
  EXPECT_THAT(MessageOf(vocabulary, invalid), HasSubstr("has 0 tokens"));
  vocabulary = TinyVocabulary();
  vocabulary.pre_tokenizer = "tekken";
  EXPECT_THAT(MessageOf(vocabulary, ErrorKind::kUnsupported), HasSubstr("tekken"));
}

TEST(ByteAlphabetTest, IsABijection) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  EXPECT_EQ(DecodeByteAlphabet(EncodeByteAlphabet(bytes)), bytes);
  EXPECT_EQ(EncodeByteAlphabet(" \n"), "\u0120\u010A");
  EXPECT_EQ(DecodeByteAlphabet("\u0144"), std::nullopt);
  EXPECT_EQ(DecodeByteAlphabet("\x80"), std::nullopt);
}

}  // namespace
}  // namespace flashinfer::engine
