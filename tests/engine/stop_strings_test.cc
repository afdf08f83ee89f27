// SPDX-License-Identifier: Apache-2.0
// Stop strings in text that is cut in every way.
#include "engine/stop_strings.h"

#include <gtest/gtest.h>

namespace flashinfer::engine {
namespace {

/// What is shown of `text`, given in three pieces.
std::string Shown(const std::string& text, size_t cut_a, size_t cut_b,
                  const std::vector<std::string>& stops) {
  StopStrings filter(stops);
  std::string shown = filter.Push(text.substr(0, cut_a));
  shown += filter.Push(text.substr(cut_a, cut_b - cut_a));
  shown += filter.Push(text.substr(cut_b));
  return shown + filter.Finish();
}

TEST(StopStringsTest, EveryCutGivesTheSameText) {
  const struct {
    std::string text, shown;
    std::vector<std::string> stops;
  } cases[] = {{"one two three", "one ", {"two"}},
               {"aaab", "a", {"aab"}},
               {"abcabd", "abc", {"abd"}},
               {"no stop here", "no stop here", {"stopp", "x"}},
               {"ends with sto", "ends with sto", {"stop"}},
               {"b before a", "", {"a", "b"}},
               {"empty", "empty", {""}}};
  for (const auto& c : cases) {
    for (size_t a = 0; a <= c.text.size(); ++a) {
      for (size_t b = a; b <= c.text.size(); ++b) {
        EXPECT_EQ(Shown(c.text, a, b, c.stops), c.shown) << c.text << " cut at " << a << ", " << b;
      }
    }
  }
}

TEST(StopStringsTest, HoldsBackOnlyWhatMayBeTheBeginning) {
  StopStrings filter({"STOP"});
  EXPECT_EQ(filter.Push("go ST"), "go ");
  EXPECT_EQ(filter.Push("AY"), "STAY");
  EXPECT_EQ(filter.Push(" S"), " ");
  EXPECT_EQ(filter.Push("TOP and more"), "");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.Push("nothing"), "");
  EXPECT_EQ(filter.Finish(), "");
}

}  // namespace
}  // namespace flashinfer::engine
