// SPDX-License-Identifier: Apache-2.0
// Prompts for the requests of a trace, which says how long they are and which begin alike.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/trace.h"

namespace flashinfer::engine {

struct TracePrompt {
  std::vector<int32_t> tokens;
  int64_t max_tokens = 0;
  bool is_cut = false;  ///< to what the context holds
};

/// Tokens made from the request's prefix hashes: equal hashes in equal places give equal tokens.
/// Where nothing is known of the content, from `number`, the request's place in the trace. Blocks
/// scale with the lengths, so that as large a part of a prompt is shared.
TracePrompt MakeTracePrompt(const TraceRequest& request, uint64_t number, double length_scale,
                            int64_t context_length, int64_t vocab_size);

}  // namespace flashinfer::engine
