// SPDX-License-Identifier: Apache-2.0
// The filters, tests, methods and functions that chat templates may call.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/template_value.h"

namespace flashinfer::engine {

/// One call with its arguments evaluated. `subject` is what a filter, test or method is applied to.
struct TemplateCall {
  std::string_view name;
  size_t offset;
  TemplateValue subject;
  ValueList arguments;
  std::vector<ValueMember> named_arguments;
  TemplateBudget& budget;
};

/// Each throws TemplateFailure: kUnsupported naming what it does not know, kInvalidArgument for
/// a wrong type or number of arguments.
TemplateValue ApplyFilter(const TemplateCall& call);
bool ApplyTest(const TemplateCall& call);
TemplateValue CallMethod(const TemplateCall& call);
TemplateValue CallFunction(const TemplateCall& call);

/// `subject[begin:end:step]` of a string or list, as in Python; undefined or none where left out.
TemplateValue SliceOf(const TemplateValue& subject, const TemplateValue& begin,
                      const TemplateValue& end, const TemplateValue& step, size_t offset,
                      TemplateBudget& budget);

/// What a loop runs over: a list's items, a dict's keys, a string's characters, nothing of
/// undefined.
ValueList ItemsOf(const TemplateValue& value, size_t offset, TemplateBudget& budget);

}  // namespace flashinfer::engine
