// SPDX-License-Identifier: Apache-2.0
// How each operator's dumped calls are made again.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dumped_call.h"

namespace flashinfer::cli {

/// What replayed calls made and later ones use: plans, packed weights. Each is kept with the call
/// that made it, whose tensors it may still read.
class ReplayObjects {
 public:
  template <class T>
  void Put(const std::shared_ptr<const DumpedCall>& call, std::shared_ptr<T> object) {
    objects_[call->Object("object")] = {std::move(object), call};
  }
  /// The object that `argument` of a call refers to; throws kInvalidArgument when the call that
  /// made it is not among those replayed.
  template <class T>
  T& Get(const DumpedCall& call, std::string_view argument) const {
    return *static_cast<T*>(Find(call, argument));
  }

 private:
  struct Kept {
    std::shared_ptr<void> object;
    std::shared_ptr<const DumpedCall> call;
  };
  void* Find(const DumpedCall& call, std::string_view argument) const;

  std::map<std::string, Kept> objects_;
};

struct ReplayRow {
  /// As LogCall() names it; plan/run classes have a row for each method.
  std::string_view op;
  void (*run)(const std::shared_ptr<const DumpedCall>& call, ReplayObjects& objects);
};

/// Of each family: cli/replay_<family>.cc.
std::span<const ReplayRow> AttentionReplayRows();
std::span<const ReplayRow> GemmReplayRows();
std::span<const ReplayRow> RowOpReplayRows();  ///< norms, RoPE, activations, quantisation
std::span<const ReplayRow> SamplingReplayRows();

/// A row for every operator of the library, by name.
const std::vector<ReplayRow>& ReplayTable();

}  // namespace flashinfer::cli
