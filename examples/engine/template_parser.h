// SPDX-License-Identifier: Apache-2.0
// Parses chat templates.
#pragma once

#include <string_view>

#include "engine/template_ast.h"

namespace flashinfer::engine {

/// The statements of `source`, in which newlines must be `\n`. Throws TemplateFailure:
/// kUnsupported for Jinja beyond the subset, kInvalidArgument for what is no Jinja.
Block ParseTemplate(std::string_view source);

}  // namespace flashinfer::engine
