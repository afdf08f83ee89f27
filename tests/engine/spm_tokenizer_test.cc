// SPDX-License-Identifier: Apache-2.0
// The llama2.c tokenizer over a tiny vocabulary and tok512.bin, against a naive merge loop.
#include "engine/spm_tokenizer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstring>

#include "engine/text_generators.h"
#include "flashinfer/error.h"
#include "support/test_files.h"

namespace flashinfer::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

SpmVocabulary TinyVocabulary() {
  SpmVocabulary vocabulary;
  const auto add = [&](std::string token, float score) {
    vocabulary.tokens.push_back(std::move(token));
    vocabulary.scores.push_back(score);
  };
  for (const char* name : {"<unk>", "\n<s>\n", "\n</s>\n"}) add(name, 0);
  for (int byte = 0; byte < 256; ++byte) add(fmt::format("<0x{:02X}>", byte), 0);
  add(" ", -10);   // 259
  add("a", -11);   // 260
  add("b", -12);   // 261
  add("ab", -1);   // 262
  add(" a", -2);   // 263
  add("aa", -1);   // 264
  add("aba", -3);  // 265
  add("\u00E9", -13);
  add("a\u00E9", -4);
  return vocabulary;
}

std::string FileOf(const SpmVocabulary& vocabulary) {
  std::string file;
  const auto put = [&](auto value) {
    file.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  put(int32_t{7});
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    put(vocabulary.scores[i]);
    put(static_cast<int32_t>(vocabulary.tokens[i].size()));
    file += vocabulary.tokens[i];
  }
  return file;
}

/// As the format's definition says: characters, then ever the best pair, leftmost of equals.
std::vector<int32_t> NaiveEncode(const SpmVocabulary& vocabulary, std::string_view text) {
  if (text.empty()) return {};
  const auto find = [&](const std::string& token) {
    for (size_t id = 259; id < vocabulary.tokens.size(); ++id)
      if (vocabulary.tokens[id] == token) return static_cast<int32_t>(id);
    return -1;
  };
  std::vector<int32_t> ids = {find(" ")};
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    while (end < text.size() && end < i + 4 && (text[end] & 0xC0) == 0x80) ++end;
    if (const int32_t id = find(std::string(text.substr(i, end - i))); id >= 0)
      ids.push_back(id);
    else
      for (; i < end; ++i) ids.push_back(3 + static_cast<unsigned char>(text[i]));
    i = end;
  }
  for (;;) {
    float best_score = -1e10F;
    size_t best = ids.size();
    int32_t best_id = -1;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const int32_t id = find(vocabulary.tokens[ids[i]] + vocabulary.tokens[ids[i + 1]]);
      if (id < 0 || vocabulary.scores[id] <= best_score) continue;
      best_score = vocabulary.scores[id];
      best = i;
      best_id = id;
    }
    if (best_id < 0) return ids;
    ids[best] = best_id;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(SpmTokenizerTest, MergesTheBestPairFirst) {
  const SpmTokenizer tokenizer(TinyVocabulary());
  EXPECT_THAT(tokenizer.Encode("ab", SpecialTokens::kPlain), ElementsAre(259, 262));
  EXPECT_THAT(tokenizer.Encode("aab", SpecialTokens::kPlain), ElementsAre(259, 264, 261));
  EXPECT_THAT(tokenizer.Encode("z\u00E9", SpecialTokens::kPlain), ElementsAre(259, 3 + 'z', 266));
  EXPECT_THAT(tokenizer.Encode("", SpecialTokens::kPlain), ElementsAre());
  EXPECT_TRUE(rc::check("equals the naive loop", [&] {
    const auto piece = rc::gen::oneOf(
        rc::gen::element<std::string>("a", "b", " ", "\u00E9", "\xA9", "z"), test::AnyChar());
    const std::string text = *test::Joined(piece);
    RC_ASSERT(tokenizer.Encode(text, SpecialTokens::kPlain) == NaiveEncode(TinyVocabulary(), text));
  }));
}

TEST(SpmTokenizerTest, DecodesWhatItEncodes) {
  const SpmTokenizer tokenizer(TinyVocabulary());
  EXPECT_TRUE(rc::check("any bytes come back", [&] {
    const std::string text = *test::AnyBytes();
    std::vector<int32_t> ids = tokenizer.Encode(text, SpecialTokens::kParse);
    ids.insert(ids.begin(), tokenizer.special_ids().bos);
    RC_ASSERT(tokenizer.Decode(ids) == "\n<s>\n" + text);
    StreamDecoder decoder(tokenizer);
    std::string streamed;
    for (const int32_t id : ids) streamed += decoder.Push(id);
    CheckUtf8("streamed", streamed + decoder.Finish());
  }));
}

TEST(SpmTokenizerTest, NeverYieldsSpecialTokens) {
  const SpmTokenizer tokenizer(TinyVocabulary());
  for (const int32_t id : tokenizer.Encode("\n<s>\n<unk>", SpecialTokens::kParse))
    EXPECT_FALSE(tokenizer.IsSpecial(id));
  EXPECT_TRUE(tokenizer.IsSpecial(1));
  EXPECT_TRUE(tokenizer.EndsGeneration(1));
  EXPECT_TRUE(tokenizer.EndsGeneration(2));
  EXPECT_TRUE(tokenizer.special_ids().add_bos);
  EXPECT_EQ(tokenizer.FindToken("\n<s>\n"), 1);
  EXPECT_EQ(tokenizer.FindToken("aba"), 265);
  EXPECT_THROW(tokenizer.Decode(268), Error);
}

TEST(SpmTokenizerTest, ReadsItsFile) {
  const SpmVocabulary vocabulary = TinyVocabulary();
  const std::string file = FileOf(vocabulary);
  EXPECT_EQ(ParseSpmVocabulary(file).tokens, vocabulary.tokens);
  EXPECT_EQ(ParseSpmVocabulary(file, 260).tokens.size(), 260U);
  for (size_t size = 0; size < file.size(); ++size)
    EXPECT_THROW(ParseSpmVocabulary(std::string_view(file).substr(0, size), 268), Error) << size;
  EXPECT_THROW(ParseSpmVocabulary(file, 269), Error);
}

TEST(SpmTokenizerTest, RefusesBadFiles) {
  const auto message = [](const auto& make) -> std::string {
    try {
      make();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      return error.what();
    }
    return "accepted";
  };
  std::string file = FileOf(TinyVocabulary());
  std::memset(file.data() + 8, 0xFF, 4);  // length of token 0
  EXPECT_THAT(message([&] { ParseSpmVocabulary(file); }), HasSubstr("length before byte 12 is -1"));
  std::memset(file.data() + 8, 0x7F, 4);
  EXPECT_THAT(message([&] { ParseSpmVocabulary(file); }), HasSubstr("needs 2139062143 bytes"));
  std::memset(file.data() + 4, 0xFF, 4);
  EXPECT_THAT(message([&] { ParseSpmVocabulary(file); }), HasSubstr("not finite"));
  SpmVocabulary vocabulary = TinyVocabulary();
  vocabulary.tokens[4] = "x";
  EXPECT_THAT(message([&] { SpmTokenizer{vocabulary}; }), HasSubstr("token 4 is 'x'"));
  vocabulary.tokens.resize(258);
  EXPECT_THAT(message([&] { SpmTokenizer{vocabulary}; }), HasSubstr("has 258 tokens"));
}

TEST(SpmTokenizerTest, Stories260K) {
  const auto path = test::DataFile("stories260K/tok512.bin");
  FLASHINFER_SKIP_WITHOUT(path);
  const SpmVocabulary vocabulary = ParseSpmVocabulary(test::ReadWholeFile(path), 512);
  const SpmTokenizer tokenizer(vocabulary);
  const std::string_view text = "Once upon a time, there was a little girl named Lily.";
  const std::vector<int32_t> ids = tokenizer.Encode(text, SpecialTokens::kPlain);
  EXPECT_EQ(ids, NaiveEncode(vocabulary, text));
  EXPECT_LT(ids.size(), text.size() / 2);
  const std::string story = test::ReadWholeFile(test::DataFile("stories260K/greedy_200.txt"));
  EXPECT_EQ(tokenizer.Encode(story, SpecialTokens::kPlain), NaiveEncode(vocabulary, story));
}

}  // namespace
}  // namespace flashinfer::engine
