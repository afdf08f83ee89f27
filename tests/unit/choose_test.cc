// SPDX-License-Identifier: Apache-2.0
// The walk over candidates: order, refusals, names.
#include "dispatch/choose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/field_list.h"

namespace flashinfer {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Size {
  int64_t size = 1;
};

template <FieldsOf<Size> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(size)
}

bool Always(std::string*) { return true; }
bool Never(std::string* why) { return Refuse(why, "needs another machine"); }
bool AcceptsSmall(const Size& p, std::string* why) {
  return p.size < 10 || Refuse(why, "size must be below 10");
}
bool AcceptsMedium(const Size& p, std::string* why) {
  return p.size < 100 || Refuse(why, "size must be below 100");
}

struct SizeOp {
  static constexpr std::string_view kName = "size";
  using Problem = Size;
  using Entry = int;
  static std::span<const Candidate<Size, int>> Candidates() {
    static constexpr Candidate<Size, int> kCandidates[] = {
        {"gpu.absent", Never, AcceptsMedium, 1},
        {"cpu.small", Always, AcceptsSmall, 2},
        {"cpu.medium", Always, AcceptsMedium, 3}};
    return kCandidates;
  }
};

TEST(Choose, TakesTheFirstThatIsHereAndAccepts) {
  EXPECT_EQ(Choose<SizeOp>({5}, Backend()), 2);
  EXPECT_EQ(Choose<SizeOp>({50}, Backend()), 3);
  EXPECT_EQ(Choose<SizeOp>({5}, Backend("cpu")), 2);
  EXPECT_EQ(Choose<SizeOp>({5}, Backend("cpu.medium")), 3);
}

TEST(Choose, RemembersWhomItTook) {
  struct AnotherOp : SizeOp {};
  EXPECT_TRUE(ChosenNames<AnotherOp>().empty());
  Choose<AnotherOp>({50}, Backend());
  EXPECT_EQ(ChosenNames<AnotherOp>(), std::vector<std::string>{"cpu.medium"});
  EXPECT_THROW(Choose<AnotherOp>({500}, Backend()), Error);
  Choose<AnotherOp>({50}, Backend());
  EXPECT_EQ(ChosenNames<AnotherOp>(), std::vector<std::string>{"cpu.medium"});
  Choose<AnotherOp>({5}, Backend());
  EXPECT_EQ(ChosenNames<AnotherOp>(), (std::vector<std::string>{"cpu.small", "cpu.medium"}));
}

TEST(Choose, WhenAllRefuseTheErrorListsTheReasons) {
  EXPECT_THAT([] { Choose<SizeOp>({500}, Backend()); },
              ThrowsMessage<Error>("no backend takes this problem: size size=500\n"
                                   "  gpu.absent  size must be below 100\n"
                                   "  cpu.small   size must be below 10\n"
                                   "  cpu.medium  size must be below 100\n"));
  EXPECT_THAT([] { Choose<SizeOp>({50}, Backend("cpu.small")); },
              ThrowsMessage<Error>(HasSubstr("cpu.medium  not asked for")));
  EXPECT_THAT([] { Choose<SizeOp>({5}, Backend("gpu")); },
              ThrowsMessage<Error>(HasSubstr("gpu.absent  needs another machine")));
}

TEST(Choose, NamesThatNobodyHasAreListedAgainstThoseThatSomebodyHas) {
  for (std::string_view name : {"cuda", "", "cp", "cpu.", "cpu.smaller"}) {
    EXPECT_THAT([&] { Choose<SizeOp>({5}, Backend(name)); },
                ThrowsMessage<Error>(
                    HasSubstr("is not one of auto, gpu, gpu.absent, cpu, cpu.small, cpu.medium")))
        << name;
  }
}

TEST(Choose, OnAnyMachineOnlyTheCodesLimitsCount) {
  const Explanation here = ExplainOp<SizeOp>({5});
  EXPECT_EQ(here.chosen()->candidate, "cpu.small");
  EXPECT_EQ(Text(here),
            "size size=5\n  gpu.absent  needs another machine\n  cpu.small   runs it\n"
            "  cpu.medium  could run it\n");
  const Explanation anywhere = ExplainOp<SizeOp>({5}, Backend(), Machine::kAny);
  EXPECT_EQ(anywhere.chosen()->candidate, "gpu.absent");
}

}  // namespace
}  // namespace flashinfer
