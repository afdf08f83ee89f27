// SPDX-License-Identifier: Apache-2.0
// Text forms of values and field lists.
#include "core/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/field_list.h"
#include "core/fields.h"
#include "core/name_table.h"

namespace flashinfer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Sample {
  DType dtype = DType::kBF16;
  int64_t size = 8;
  int32_t count = -1;
  float scale = 0.5f;
  bool causal = false;
};

template <FieldsOf<Sample> Self, class Visit>
void ForEachField(Self& self, Visit&& visit){FLASHINFER_NAMED(dtype) FLASHINFER_NAMED(size)
                                                 FLASHINFER_NAMED(count) FLASHINFER_NAMED(scale)
                                                     FLASHINFER_NAMED(causal)}

TEST(Text, SplitsAtRunsOfBlanks) {
  EXPECT_THAT(SplitWords("  a\tbc  d "), ElementsAre("a", "bc", "d"));
  EXPECT_THAT(SplitWords(" \t "), ElementsAre());
  EXPECT_EQ(Join({"a", "b"}), "a, b");
  EXPECT_EQ(Join({}), "");
  EXPECT_EQ(Text(Dims{}), "[]");
}

TEST(NameTable, ReadsWhatItWritesAndListsTheRest) {
  enum class Fruit { kApple, kPear };
  constexpr NameTable<Fruit, 2> kFruits{{"apple", "pear"}};
  Fruit fruit = Fruit::kApple;
  kFruits.Parse("fruit", kFruits[Fruit::kPear], fruit);
  EXPECT_EQ(fruit, Fruit::kPear);
  EXPECT_THAT([&] { kFruits.Parse("fruit", "plum", fruit); },
              ThrowsMessage<Error>(HasSubstr("fruit: 'plum' is not one of apple, pear")));
  EXPECT_EQ(fruit, Fruit::kPear);
}

TEST(Fields, TextParsesBack) {
  const Sample sample{DType::kE4M3, int64_t{1} << 40, 7, 0.1f, true};
  const std::string text = FieldsText("op", sample);
  EXPECT_EQ(text, "op dtype=e4m3 size=1099511627776 count=7 scale=0.1 causal=1");
  auto words = SplitWords(text);
  words.erase(words.begin());
  EXPECT_EQ(FieldsText("op", ParseFields<Sample>(words)), text);
  EXPECT_EQ(FieldsText("op", ParseFields<Sample>({})),
            "op dtype=bf16 size=8 count=-1 scale=0.5 causal=0");
}

TEST(Fields, ErrorsNameTheField) {
  const auto parse = [](std::string_view word) { return [word] { ParseFields<Sample>({word}); }; };
  EXPECT_THAT(parse("width=3"),
              ThrowsMessage<Error>(HasSubstr("fields: dtype, size, count, scale, causal")));
  EXPECT_THAT(parse("size"), ThrowsMessage<Error>(HasSubstr("'size' is not a field=value")));
  EXPECT_THAT(parse("size=4x"), ThrowsMessage<Error>("size: '4x' is not a 64-bit integer"));
  EXPECT_THAT(parse("size="), ThrowsMessage<Error>("size: '' is not a 64-bit integer"));
  EXPECT_THAT(parse("count=4294967296"), ThrowsMessage<Error>(HasSubstr("32-bit integer")));
  EXPECT_THAT(parse("scale=a"), ThrowsMessage<Error>("scale: 'a' is not a number"));
  EXPECT_THAT(parse("causal=yes"), ThrowsMessage<Error>("causal: 'yes' is not 0 or 1"));
  EXPECT_THAT(parse("dtype=f8"), ThrowsMessage<Error>(HasSubstr("dtype: 'f8' is not an element")));
}

}  // namespace
}  // namespace flashinfer
