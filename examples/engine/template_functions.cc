// SPDX-License-Identifier: Apache-2.0
// Tables of filters, tests, methods and functions.
#include "engine/template_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "engine/template_text.h"

namespace flashinfer::engine {
namespace {

using Call = const TemplateCall&;

constexpr int64_t kMaxJsonBytesPerByte = 6;  // \u0000
constexpr size_t kMaxStripBytes = 256;       // each is compared with each character

[[noreturn]] void FailArgument(Call call, std::string_view problem) {
  throw TemplateFailure{ErrorKind::kInvalidArgument, call.offset,
                        fmt::format("{}: {}", call.name, problem)};
}

void CheckCount(Call call, size_t at_least, size_t at_most) {
  if (!call.named_arguments.empty())
    throw TemplateFailure{
        ErrorKind::kUnsupported, call.offset,
        fmt::format("the argument \"{}\" of {}", call.named_arguments.front().first, call.name)};
  if (call.arguments.size() < at_least || call.arguments.size() > at_most)
    FailArgument(call, fmt::format("takes {} to {} arguments, has {}", at_least, at_most,
                                   call.arguments.size()));
}

const MarkedText& TextOf(Call call, const TemplateValue& value) {
  if (const MarkedText* text = value.AsText()) return *text;
  FailArgument(call, fmt::format("needs a string, has {}", value.TypeName()));
}

int64_t IntOf(Call call, const TemplateValue& value) {
  if (const int64_t* number = value.AsInt()) return *number;
  FailArgument(call, fmt::format("needs an integer, has {}", value.TypeName()));
}

TemplateValue MakeText(Call call, MarkedText text) {
  call.budget.SpendBytes(text.size(), call.offset);
  return TemplateValue(std::move(text));
}

TemplateValue MakeTextList(Call call, std::vector<MarkedText> texts) {
  ValueList items;
  for (MarkedText& text : texts) items.push_back(MakeText(call, std::move(text)));
  call.budget.SpendSteps(std::ssize(items), call.offset);
  return TemplateValue::MakeList(std::move(items), call.offset);
}

TemplateValue StripSubject(Call call, StripSide side) {
  CheckCount(call, 0, 1);
  // A filter takes what it can print; a method has a string anyway.
  const MarkedText text = ToText(call.subject, call.offset);
  if (call.arguments.empty() || call.arguments[0].IsNone())
    return MakeText(call, Strip(text, std::nullopt, side));
  const MarkedText& chars = TextOf(call, call.arguments[0]);
  if (chars.size() > kMaxStripBytes) FailArgument(call, "has too many characters to strip");
  return MakeText(call, Strip(text, chars.bytes, side));
}

TemplateValue LeftStrip(Call call) { return StripSubject(call, StripSide::kLeft); }
TemplateValue RightStrip(Call call) { return StripSubject(call, StripSide::kRight); }
TemplateValue BothStrip(Call call) { return StripSubject(call, StripSide::kBoth); }

TemplateValue CaseSubject(Call call, LetterCase letter_case) {
  CheckCount(call, 0, 0);
  return MakeText(call, ToCase(ToText(call.subject, call.offset), letter_case));
}

TemplateValue Upper(Call call) { return CaseSubject(call, LetterCase::kUpper); }
TemplateValue Lower(Call call) { return CaseSubject(call, LetterCase::kLower); }
TemplateValue Capitalize(Call call) { return CaseSubject(call, LetterCase::kCapitalized); }
TemplateValue Title(Call call) { return CaseSubject(call, LetterCase::kTitle); }

TemplateValue Length(Call call) {
  CheckCount(call, 0, 0);
  if (const MarkedText* text = call.subject.AsText())
    return TemplateValue(std::ssize(CharBegins(text->bytes)) - 1);
  if (const auto* list = call.subject.AsList())
    return TemplateValue(static_cast<int64_t>(list->items.size()));
  if (const auto* dict = call.subject.AsDict())
    return TemplateValue(static_cast<int64_t>(dict->members.size()));
  if (call.subject.IsUndefined()) return TemplateValue(int64_t{0});
  FailArgument(call, fmt::format("{} has no length", call.subject.TypeName()));
}

TemplateValue Json(Call call) {
  CheckCount(call, 0, 0);
  call.budget.SpendBytes(kMaxJsonBytesPerByte * call.subject.extent().weight, call.offset);
  return TemplateValue(ToJson(call.subject, call.offset));
}

TemplateValue String(Call call) {
  CheckCount(call, 0, 0);
  return MakeText(call, ToText(call.subject, call.offset));
}

TemplateValue Int(Call call) {
  CheckCount(call, 0, 1);
  if (call.subject.AsInt() != nullptr) return call.subject;
  if (const bool* flag = call.subject.AsBool()) return TemplateValue(int64_t{*flag ? 1 : 0});
  int64_t number = 0;
  if (const MarkedText* text = call.subject.AsText()) {
    const std::string digits = Strip(*text, std::nullopt, StripSide::kBoth).bytes;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc() && end == digits.data() + digits.size()) return TemplateValue(number);
  }
  return call.arguments.empty() ? TemplateValue(int64_t{0}) : call.arguments[0];
}

TemplateValue Default(Call call) {
  CheckCount(call, 1, 2);
  const bool also_false = call.arguments.size() == 2 && call.arguments[1].Truth();
  const bool absent = also_false ? !call.subject.Truth() : call.subject.IsUndefined();
  return absent ? call.arguments[0] : call.subject;
}

TemplateValue ListOf(Call call) {
  CheckCount(call, 0, 0);
  return TemplateValue::MakeList(ItemsOf(call.subject, call.offset, call.budget), call.offset);
}

TemplateValue First(Call call) {
  CheckCount(call, 0, 0);
  const ValueList items = ItemsOf(call.subject, call.offset, call.budget);
  return items.empty() ? TemplateValue() : items.front();
}

TemplateValue Last(Call call) {
  CheckCount(call, 0, 0);
  const ValueList items = ItemsOf(call.subject, call.offset, call.budget);
  return items.empty() ? TemplateValue() : items.back();
}

TemplateValue JoinItems(Call call, const TemplateValue& list, const MarkedText& separator) {
  MarkedText joined;
  bool is_first = true;
  for (const TemplateValue& item : ItemsOf(list, call.offset, call.budget)) {
    if (!std::exchange(is_first, false)) joined.Append(separator);
    const MarkedText text = ToText(item, call.offset);
    call.budget.SpendBytes(text.size() + separator.size(), call.offset);
    joined.Append(text);
  }
  return TemplateValue(std::move(joined));
}

TemplateValue JoinFilter(Call call) {
  CheckCount(call, 0, 1);
  return JoinItems(call, call.subject,
                   call.arguments.empty() ? MarkedText{} : TextOf(call, call.arguments[0]));
}

TemplateValue JoinMethod(Call call) {
  CheckCount(call, 1, 1);
  return JoinItems(call, call.arguments[0], TextOf(call, call.subject));
}

TemplateValue ReplaceText(Call call) {
  CheckCount(call, 2, 2);
  const MarkedText& from = TextOf(call, call.arguments[0]);
  if (from.size() == 0) FailArgument(call, "needs a text to look for");
  const MarkedText text = ToText(call.subject, call.offset);
  call.budget.SpendSearch(text.size(), from.size(), call.offset);
  return MakeText(
      call, Replace(text, from.bytes, TextOf(call, call.arguments[1]), call.budget, call.offset));
}

TemplateValue StartsWith(Call call) {
  CheckCount(call, 1, 1);
  return TemplateValue(
      TextOf(call, call.subject).bytes.starts_with(TextOf(call, call.arguments[0]).bytes));
}

TemplateValue EndsWith(Call call) {
  CheckCount(call, 1, 1);
  return TemplateValue(
      TextOf(call, call.subject).bytes.ends_with(TextOf(call, call.arguments[0]).bytes));
}

TemplateValue Split(Call call) {
  CheckCount(call, 0, 2);
  const MarkedText& text = TextOf(call, call.subject);
  const int64_t max_splits = call.arguments.size() == 2 ? IntOf(call, call.arguments[1]) : -1;
  if (call.arguments.empty() || call.arguments[0].IsNone()) {
    if (max_splits >= 0)
      throw TemplateFailure{ErrorKind::kUnsupported, call.offset, "a bounded split at spaces"};
    return MakeTextList(call, SplitAtSpace(text));
  }
  const MarkedText& separator = TextOf(call, call.arguments[0]);
  if (separator.size() == 0) FailArgument(call, "needs a separator");
  call.budget.SpendSearch(text.size(), separator.size(), call.offset);
  return MakeTextList(call, SplitAt(text, separator.bytes, max_splits));
}

const TemplateValue::Dict& DictOf(Call call) {
  if (const auto* dict = call.subject.AsDict()) return *dict;
  FailArgument(call, fmt::format("needs a dict, has {}", call.subject.TypeName()));
}

TemplateValue Items(Call call) {
  CheckCount(call, 0, 0);
  ValueList items;
  if (!call.subject.IsUndefined())
    for (const auto& [key, value] : DictOf(call).members)
      items.push_back(TemplateValue::MakeList({TemplateValue(MarkedText::FromTemplate(key)), value},
                                              call.offset));
  call.budget.SpendSteps(std::ssize(items), call.offset);
  return TemplateValue::MakeList(std::move(items), call.offset);
}

TemplateValue Keys(Call call) {
  CheckCount(call, 0, 0);
  DictOf(call);
  return ListOf(call);
}

TemplateValue Values(Call call) {
  CheckCount(call, 0, 0);
  ValueList items;
  for (const auto& [key, value] : DictOf(call).members) items.push_back(value);
  call.budget.SpendSteps(std::ssize(items), call.offset);
  return TemplateValue::MakeList(std::move(items), call.offset);
}

TemplateValue Get(Call call) {
  CheckCount(call, 1, 2);
  const TemplateValue* member = DictOf(call).Find(TextOf(call, call.arguments[0]).bytes);
  if (member != nullptr) return *member;
  return call.arguments.size() == 2 ? call.arguments[1] : TemplateValue::MakeNone();
}

TemplateValue RaiseException(Call call) {
  CheckCount(call, 1, 1);
  throw TemplateFailure{
      ErrorKind::kInvalidArgument, call.offset,
      fmt::format("the template refuses: {}", ToText(call.arguments[0], call.offset).bytes)};
}

TemplateValue MakeNamespaceOf(Call call) {
  if (!call.arguments.empty())
    throw TemplateFailure{ErrorKind::kUnsupported, call.offset, "namespace of an unnamed value"};
  // The check of members is that of a dict.
  TemplateValue::MakeDict(call.named_arguments, call.offset);
  TemplateValue value = TemplateValue::MakeNamespace();
  for (const auto& [name, member] : call.named_arguments)
    value.AsNamespace()->members.insert_or_assign(name, member);
  return value;
}

TemplateValue DictFunction(Call call) {
  if (!call.arguments.empty())
    throw TemplateFailure{ErrorKind::kUnsupported, call.offset, "dict of an unnamed value"};
  return TemplateValue::MakeDict(call.named_arguments, call.offset);
}

TemplateValue Range(Call call) {
  CheckCount(call, 1, 3);
  const bool has_begin = call.arguments.size() > 1;
  const int64_t begin = has_begin ? IntOf(call, call.arguments[0]) : 0;
  const int64_t end = IntOf(call, call.arguments[has_begin ? 1 : 0]);
  const int64_t step = call.arguments.size() > 2 ? IntOf(call, call.arguments[2]) : 1;
  if (step == 0) FailArgument(call, "the step must not be 0");
  ValueList items;
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    call.budget.SpendSteps(1, call.offset);
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return TemplateValue::MakeList(std::move(items), call.offset);
}

struct Named {
  std::string_view name;
  TemplateValue (*function)(Call);
};

constexpr auto kFilters = std::to_array<Named>({
    {"capitalize", Capitalize}, {"count", Length},    {"d", Default},
    {"default", Default},       {"first", First},     {"int", Int},
    {"items", Items},           {"join", JoinFilter}, {"last", Last},
    {"length", Length},         {"list", ListOf},     {"lower", Lower},
    {"replace", ReplaceText},   {"safe", String},     {"string", String},
    {"title", Title},           {"tojson", Json},     {"trim", BothStrip},
    {"upper", Upper},
});

constexpr auto kTextMethods = std::to_array<Named>({
    {"capitalize", Capitalize},
    {"endswith", EndsWith},
    {"join", JoinMethod},
    {"lower", Lower},
    {"lstrip", LeftStrip},
    {"replace", ReplaceText},
    {"rstrip", RightStrip},
    {"split", Split},
    {"startswith", StartsWith},
    {"strip", BothStrip},
    {"title", Title},
    {"upper", Upper},
});

constexpr auto kDictMethods =
    std::to_array<Named>({{"get", Get}, {"items", Items}, {"keys", Keys}, {"values", Values}});

constexpr auto kFunctions = std::to_array<Named>({{"dict", DictFunction},
                                                  {"namespace", MakeNamespaceOf},
                                                  {"raise_exception", RaiseException},
                                                  {"range", Range}});

template <size_t kSize>
TemplateValue CallNamed(const std::array<Named, kSize>& table, std::string_view what, Call call) {
  for (const Named& entry : table)
    if (entry.name == call.name) return entry.function(call);
  throw TemplateFailure{ErrorKind::kUnsupported, call.offset,
                        fmt::format("the {} \"{}\"", what, call.name)};
}

bool IsMultiple(Call call, int64_t divisor, int64_t remainder) {
  if (divisor == 0) FailArgument(call, "the divisor must not be 0");
  if (divisor == -1) return remainder == 0;  // the one quotient that may overflow
  return (IntOf(call, call.subject) % divisor + divisor) % divisor == remainder;
}

/// Tests without arguments.
std::optional<bool> ApplyPlainTest(Call call) {
  const TemplateValue& v = call.subject;
  const std::string_view name = call.name;
  const bool is_iterable = v.AsText() || v.AsList() || v.AsDict();
  if (name == "defined") return !v.IsUndefined();
  if (name == "undefined") return v.IsUndefined();
  if (name == "none") return v.IsNone();
  if (name == "string") return v.AsText() != nullptr;
  if (name == "boolean") return v.AsBool() != nullptr;
  if (name == "true") return v.AsBool() && *v.AsBool();
  if (name == "false") return v.AsBool() && !*v.AsBool();
  if (name == "integer") return v.AsInt() != nullptr;
  if (name == "number") return v.AsInt() || v.AsBool();
  if (name == "mapping") return v.AsDict() != nullptr;
  if (name == "iterable" || name == "sequence") return is_iterable;
  if (name == "odd") return IsMultiple(call, 2, 1);
  if (name == "even") return IsMultiple(call, 2, 0);
  return std::nullopt;
}

/// Position and direction of a slice over `size` items, as Python defines them.
struct SliceRange {
  int64_t begin;
  int64_t end;
  int64_t step;
};

SliceRange ResolveSlice(const std::array<std::optional<int64_t>, 3>& parts, int64_t size) {
  const int64_t step = parts[2].value_or(1);
  const int64_t low = step > 0 ? 0 : -1;
  const int64_t high = step > 0 ? size : size - 1;
  const auto clamp = [&](std::optional<int64_t> part, int64_t fallback) {
    if (!part) return fallback;
    return std::clamp(*part < 0 ? *part + size : *part, low, high);
  };
  return {clamp(parts[0], step > 0 ? low : high), clamp(parts[1], step > 0 ? high : low), step};
}

}  // namespace

TemplateValue ApplyFilter(Call call) { return CallNamed(kFilters, "filter", call); }

TemplateValue CallFunction(Call call) { return CallNamed(kFunctions, "function", call); }

TemplateValue CallMethod(Call call) {
  if (call.subject.AsText() != nullptr) return CallNamed(kTextMethods, "string method", call);
  if (call.subject.AsDict() != nullptr) return CallNamed(kDictMethods, "dict method", call);
  const std::string what = fmt::format("method of {}", call.subject.TypeName());
  return CallNamed(std::array<Named, 0>{}, what, call);
}

bool ApplyTest(Call call) {
  if (call.arguments.empty()) {
    CheckCount(call, 0, 0);
    if (const auto answer = ApplyPlainTest(call)) return *answer;
  }
  const bool equals = call.name == "eq" || call.name == "equalto";
  if (equals || call.name == "ne" || call.name == "divisibleby") {
    CheckCount(call, 1, 1);
    if (call.name == "divisibleby") return IsMultiple(call, IntOf(call, call.arguments[0]), 0);
    call.budget.SpendBytes(call.subject.extent().weight / 16, call.offset);
    return Equal(call.subject, call.arguments[0]) == equals;
  }
  throw TemplateFailure{ErrorKind::kUnsupported, call.offset,
                        fmt::format("the test \"{}\"", call.name)};
}

TemplateValue SliceOf(const TemplateValue& subject, const TemplateValue& begin,
                      const TemplateValue& end, const TemplateValue& step, size_t offset,
                      TemplateBudget& budget) {
  const TemplateCall call{"slice", offset, subject, {}, {}, budget};
  std::array<std::optional<int64_t>, 3> parts;
  const std::array<const TemplateValue*, 3> values = {&begin, &end, &step};
  for (size_t i = 0; i < 3; ++i)
    if (!values[i]->IsUndefined() && !values[i]->IsNone()) parts[i] = IntOf(call, *values[i]);
  if (parts[2] == 0) FailArgument(call, "the step must not be 0");
  if (subject.AsText() == nullptr && subject.AsList() == nullptr)
    FailArgument(call, fmt::format("{} cannot be sliced", subject.TypeName()));

  const auto* list = subject.AsList();
  budget.SpendBytes(subject.extent().weight, offset);
  const std::vector<size_t> begins =
      list == nullptr ? CharBegins(subject.AsText()->bytes) : std::vector<size_t>();
  const SliceRange range =
      ResolveSlice(parts, list != nullptr ? std::ssize(list->items) : std::ssize(begins) - 1);
  ValueList items;
  MarkedText text;
  for (int64_t i = range.begin; range.step > 0 ? i < range.end : i > range.end;) {
    if (list != nullptr)
      items.push_back(list->items[i]);
    else
      text.Append(subject.AsText()->Slice(begins[i], begins[i + 1]));
    if (__builtin_add_overflow(i, range.step, &i)) break;
  }
  return list != nullptr ? TemplateValue::MakeList(std::move(items), offset)
                         : TemplateValue(std::move(text));
}

ValueList ItemsOf(const TemplateValue& value, size_t offset, TemplateBudget& budget) {
  ValueList items;
  if (const auto* list = value.AsList()) {
    items = list->items;
  } else if (const auto* dict = value.AsDict()) {
    for (const ValueMember& member : dict->members)
      items.emplace_back(MarkedText::FromTemplate(member.first));
  } else if (const MarkedText* text = value.AsText()) {
    constexpr int64_t kBytesOfCharValue = 128;
    budget.SpendBytes(kBytesOfCharValue * std::ssize(text->bytes), offset);
    const std::vector<size_t> begins = CharBegins(text->bytes);
    for (size_t i = 0; i + 1 < begins.size(); ++i)
      items.emplace_back(text->Slice(begins[i], begins[i + 1]));
  } else if (!value.IsUndefined()) {
    throw TemplateFailure{ErrorKind::kInvalidArgument, offset,
                          fmt::format("{} has no items", value.TypeName())};
  }
  budget.SpendSteps(std::ssize(items) / 16, offset);
  return items;
}

}  // namespace flashinfer::engine
