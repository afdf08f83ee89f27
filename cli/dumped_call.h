// SPDX-License-Identifier: Apache-2.0
// One call of an operator as the library dumped it, read back into memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flashinfer/sampling.h"
#include "flashinfer/tensor.h"

namespace flashinfer::cli {

/// A tensor with memory of its own, strided as the dumped one was.
struct DumpedTensor {
  std::vector<char> memory;
  TensorView view;       ///< undefined: the call was given none
  bool has_data = true;  ///< false: it was on another device
};

/// `field=value` words, as problems are written.
using Fields = std::map<std::string, std::string, std::less<>>;

/// Values that are missing or unreadable throw kInvalidArgument naming the call and the argument.
class DumpedCall {
 public:
  /// Reads call.json and its tensors; throws kIo.
  explicit DumpedCall(const std::filesystem::path& folder);

  const std::string& name() const { return name_; }  ///< of the folder
  const std::string& op() const { return op_; }
  bool has_all_data() const;

  /// An undefined view where the call had none.
  TensorView Tensor(std::string_view argument) const;
  bool Has(std::string_view argument) const;
  const std::string& Text(std::string_view argument) const;
  bool Bool(std::string_view argument) const { return Text(argument) == "1"; }
  int64_t Int(std::string_view argument) const;
  float Float(std::string_view argument) const;
  Fields ProblemFields(std::string_view argument) const;
  /// What refers to an object, unique over processes.
  std::string Object(std::string_view argument) const;
  /// A value for every row: a tensor, or a number.
  template <class T>
  PerRow<T> Rows(std::string_view argument) const {
    if (tensors_.count(std::string(argument)) > 0) return Tensor(argument);
    if constexpr (std::is_same_v<T, float>) return Float(argument);
    return static_cast<T>(Int(argument));
  }

  /// What the call returned, by the names of its arguments; nothing when it threw.
  std::optional<std::map<std::string, DumpedTensor>> Returned() const;

 private:
  [[noreturn]] void Throw(std::string_view argument, std::string_view problem) const;

  std::filesystem::path folder_;
  std::string name_;
  std::string op_;
  std::map<std::string, DumpedTensor> tensors_;
  std::map<std::string, std::string> texts_;
};

}  // namespace flashinfer::cli
