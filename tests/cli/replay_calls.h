// SPDX-License-Identifier: Apache-2.0
// A call or more of every operator, small, for the tests of dumps.
#pragma once

#include <span>
#include <string_view>

namespace flashinfer::test {

struct NamedCall {
  std::string_view name;
  void (*run)();
};

/// Together they log every operator of the library.
std::span<const NamedCall> EveryCall();

/// Runs the calls of one name.
void Call(std::string_view name);

}  // namespace flashinfer::test
