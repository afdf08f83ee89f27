// SPDX-License-Identifier: Apache-2.0
// Expectations of errors: kind, words, and that they fit one line.
#pragma once

#include <gmock/gmock.h>

#include <string>

#include "flashinfer/error.h"

namespace flashinfer::test {

/// Fails unless `call` throws an Error of `kind` whose message holds `words` and is one line.
template <class Call>
void ExpectError(ErrorKind kind, const std::string& words, Call&& call) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown; expected: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(Name(error.kind()), Name(kind)) << error.what();
    EXPECT_THAT(error.what(), ::testing::HasSubstr(words));
    EXPECT_THAT(error.what(), ::testing::Not(::testing::HasSubstr("\n")));
  }
}

}  // namespace flashinfer::test
