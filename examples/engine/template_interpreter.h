// SPDX-License-Identifier: Apache-2.0
// Runs a parsed chat template.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/template_ast.h"
#include "engine/template_value.h"

namespace flashinfer::engine {

using TemplateVariables = std::map<std::string, TemplateValue, std::less<>>;

/// What `block` writes. Throws TemplateFailure.
MarkedText RunTemplate(const Block& block, TemplateVariables variables, TemplateBudget budget);

}  // namespace flashinfer::engine
