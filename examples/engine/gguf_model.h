// SPDX-License-Identifier: Apache-2.0
// The model in a GGUF file.
#pragma once

#include "engine/checkpoint.h"
#include "engine/gguf.h"

namespace flashinfer::engine {

/// Throws as Checkpoint::Open. Refuses a file with a tensor or a key that it does not know to
/// leave the result as it is, so that no model runs in part.
CheckpointContent ReadGgufModel(const GgufFile& file);

}  // namespace flashinfer::engine
