// SPDX-License-Identifier: Apache-2.0
// Where each pre-tokenizer cuts; the words follow from its regular expression by hand.
#include "engine/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "engine/text_generators.h"
#include "flashinfer/error.h"

namespace flashinfer::engine {
namespace {

using Words = std::vector<std::string_view>;

struct Case {
  std::string_view text;
  Words words;
};

void Expect(SplitRule rule, const std::vector<Case>& cases) {
  for (const Case& c : cases) EXPECT_EQ(SplitIntoWords(rule, c.text), c.words) << c.text;
}

TEST(PreTokenizerTest, Gpt2) {
  Expect(SplitRule::kGpt2, {
                               {"", {}},
                               {" ", {" "}},
                               {"Hello, world!", {"Hello", ",", " world", "!"}},
                               {"a  b   c", {"a", " ", " b", "  ", " c"}},
                               {"x \n y", {"x", " \n", " y"}},
                               {"x\n\ny", {"x", "\n", "\n", "y"}},
                               {"x\ty", {"x", "\t", "y"}},
                               {"end  ", {"end", "  "}},
                               {"I'll CAN'T", {"I", "'ll", " CAN", "'", "T"}},
                               {"'very", {"'ve", "ry"}},
                               {" 's", {" '", "s"}},
                               {"year 2024x", {"year", " 2024", "x"}},
                               {"?! \u00BD\u0663", {"?!", " \u00BD\u0663"}},
                               {"e\u0301", {"e", "\u0301"}},
                               {"\u00A0x", {"\u00A0", "x"}},
                               {"\u0085\u3000\u2028x", {"\u0085\u3000", "\u2028", "x"}},
                               {"a\xFF\xFE"
                                "b",
                                {"a", "\xFF\xFE", "b"}},
                           });
}

TEST(PreTokenizerTest, DigitsThenGpt2) {
  Expect(SplitRule::kDigitsThenGpt2, {
                                         {"314", {"3", "1", "4"}},
                                         {" 42", {" ", "4", "2"}},
                                         {"2 + 2 =", {"2", " +", " ", "2", " ="}},
                                         {"a1b", {"a", "1", "b"}},
                                         {"x  7", {"x", "  ", "7"}},
                                         {"\u00BD\u0663", {"\u00BD", "\u0663"}},
                                         {"it's 5'll", {"it", "'s", " ", "5", "'ll"}},
                                     });
}

TEST(PreTokenizerTest, Llama3) {
  Expect(SplitRule::kLlama3, {
                                 {"1234567", {"123", "456", "7"}},
                                 {" 42", {" ", "42"}},
                                 {"I'LL don't", {"I", "'LL", " don", "'t"}},
                                 {"(foo)bar", {"(foo", ")bar"}},
                                 {"a\n\n b", {"a", "\n\n", " b"}},
                                 {"a \n \n  b", {"a", " \n \n", " ", " b"}},
                                 {"x;\r\n\r\ny", {"x", ";\r\n\r\n", "y"}},
                                 {"\nfoo", {"\n", "foo"}},
                                 {"\tfoo", {"\tfoo"}},
                                 {"  foo", {" ", " foo"}},
                                 {" ??", {" ??"}},
                                 {"'tis", {"'t", "is"}},
                                 {"'abc", {"'abc"}},
                                 {"\u00A0nbsp", {"\u00A0nbsp"}},
                                 {"tail  ", {"tail", "  "}},
                                 {"1\u0301", {"1", "\u0301"}},
                             });
}

TEST(PreTokenizerTest, Qwen2CutsEveryDigit) {
  Expect(SplitRule::kQwen2, {
                                {"1234", {"1", "2", "3", "4"}},
                                {" 42a", {" ", "4", "2", "a"}},
                                {"it'S (x)\n", {"it", "'S", " (", "x", ")\n"}},
                            });
}

TEST(PreTokenizerTest, DefaultCutsPunctuationAndThreeDigits) {
  Expect(SplitRule::kDefault, {
                                  {"12345", {"123", "45"}},
                                  {"a 1234567", {"a", " ", "123", "456", "7"}},
                                  {"x==y!", {"x", "==", "y", "!"}},
                                  {"don't", {"don", "'", "t"}},
                                  {"a `b", {"a", " `", "b"}},
                                  {"\u06631234", {"\u0663", "123", "4"}},
                                  {"a \u2014 b", {"a", " ", "\u2014", " b"}},
                              });
}

TEST(PreTokenizerTest, NamesMapToRules) {
  EXPECT_EQ(FindPreTokenizer("smollm").rule, SplitRule::kDigitsThenGpt2);
  EXPECT_EQ(FindPreTokenizer("qwen2").rule, SplitRule::kQwen2);
  EXPECT_TRUE(FindPreTokenizer("llama-bpe").whole_words_first);
  EXPECT_FALSE(FindPreTokenizer("gpt-2").whole_words_first);
}

TEST(PreTokenizerTest, UnknownNameIsNamedWithTheKnownOnes) {
  try {
    FindPreTokenizer("tekken");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_THAT(error.what(), testing::HasSubstr("'tekken'"));
    EXPECT_THAT(error.what(), testing::HasSubstr("smollm"));
  }
}

TEST(PreTokenizerTest, WordsJoinToTheText) {
  EXPECT_TRUE(rc::check("words are a partition of any bytes", [] {
    const std::string text = *test::AnyBytes();
    for (const SplitRule rule : {SplitRule::kGpt2, SplitRule::kDigitsThenGpt2, SplitRule::kLlama3,
                                 SplitRule::kQwen2, SplitRule::kDefault}) {
      std::string joined;
      for (const std::string_view word : SplitIntoWords(rule, text)) {
        RC_ASSERT(!word.empty());
        joined += word;
      }
      RC_ASSERT(joined == text);
    }
  }));
}

}  // namespace
}  // namespace flashinfer::engine
