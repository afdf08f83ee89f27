// SPDX-License-Identifier: Apache-2.0
// The model in a llama2.c checkpoint, version 0.
#pragma once

#include "engine/checkpoint.h"
#include "engine/mapped_file.h"

namespace flashinfer::engine {

/// Throws kInvalidArgument when the header is not one of such a file or the file is not of the
/// size that the header gives.
CheckpointContent ReadLlama2cModel(const MappedFile& file);

}  // namespace flashinfer::engine
