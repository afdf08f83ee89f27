// SPDX-License-Identifier: Apache-2.0
// The operators that can be replayed, from the lists of their families.
#include "replay_ops.h"

#include <fmt/format.h>

#include <algorithm>

#include "flashinfer/error.h"

namespace flashinfer::cli {

void* ReplayObjects::Find(const DumpedCall& call, std::string_view argument) const {
  const auto at = objects_.find(call.Object(argument));
  if (at != objects_.end()) return at->second.object.get();
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("{}: {}: the call that made it was not replayed", call.name(), argument));
}

const std::vector<ReplayRow>& ReplayTable() {
  static const std::vector<ReplayRow> table = [] {
    std::vector<ReplayRow> rows;
    for (const auto& family :
         {AttentionReplayRows(), GemmReplayRows(), RowOpReplayRows(), SamplingReplayRows()}) {
      rows.insert(rows.end(), family.begin(), family.end());
    }
    std::ranges::sort(rows, {}, &ReplayRow::op);
    return rows;
  }();
  return table;
}

}  // namespace flashinfer::cli
