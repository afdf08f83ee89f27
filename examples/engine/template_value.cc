// SPDX-License-Identifier: Apache-2.0
// Making and comparing of template values.
#include "engine/template_value.h"

#include <fmt/format.h>

#include <algorithm>

namespace flashinfer::engine {
namespace {

constexpr int kMaxDepth = 32;
constexpr int64_t kMaxWeight = int64_t{1} << 40;  // above any budget

/// Counts `member` in; checks that a container may hold it.
void AddMember(const TemplateValue& member, size_t offset, TemplateValue::Extent& extent) {
  if (member.AsNamespace() != nullptr)
    throw TemplateFailure{ErrorKind::kUnsupported, offset, "a namespace inside another value"};
  const TemplateValue::Extent inner = member.extent();
  if (inner.depth >= kMaxDepth)
    throw TemplateFailure{ErrorKind::kUnsupported, offset,
                          fmt::format("values nested deeper than {}", kMaxDepth)};
  extent.depth = std::max(extent.depth, inner.depth + 1);
  extent.weight = std::min(extent.weight + inner.weight, kMaxWeight);
}

}  // namespace

MarkedText MarkedText::FromTemplate(std::string_view text) {
  return {std::string(text), std::string(text.size(), kTemplateMark)};
}

MarkedText MarkedText::FromUser(std::string_view text) {
  return {std::string(text), std::string(text.size(), kUserMark)};
}

void MarkedText::Append(std::string_view text, char mark) {
  bytes += text;
  marks.append(text.size(), mark);
}

void MarkedText::Append(const MarkedText& other) {
  bytes += other.bytes;
  marks += other.marks;
}

MarkedText MarkedText::Slice(size_t begin, size_t end) const {
  return {bytes.substr(begin, end - begin), marks.substr(begin, end - begin)};
}

const TemplateValue* TemplateValue::Dict::Find(std::string_view key) const {
  for (const ValueMember& member : members)
    if (member.first == key) return &member.second;
  return nullptr;
}

TemplateValue TemplateValue::MakeNone() {
  TemplateValue value;
  value.value_ = None{};
  return value;
}

TemplateValue TemplateValue::MakeList(ValueList items, size_t offset) {
  Extent extent{.depth = 1};
  for (const TemplateValue& item : items) AddMember(item, offset, extent);
  TemplateValue value;
  value.value_ = std::make_shared<const List>(List{std::move(items), extent});
  return value;
}

TemplateValue TemplateValue::MakeDict(std::vector<ValueMember> members, size_t offset) {
  Extent extent{.depth = 1};
  for (const ValueMember& member : members) {
    AddMember(member.second, offset, extent);
    extent.weight += std::ssize(member.first);
  }
  TemplateValue value;
  value.value_ = std::make_shared<const Dict>(Dict{std::move(members), extent});
  return value;
}

TemplateValue TemplateValue::MakeNamespace() {
  TemplateValue value;
  value.value_ = std::make_shared<Namespace>();
  return value;
}

bool TemplateValue::Truth() const {
  if (const bool* value = AsBool()) return *value;
  if (const int64_t* value = AsInt()) return *value != 0;
  if (const MarkedText* text = AsText()) return text->size() > 0;
  if (const List* list = AsList()) return !list->items.empty();
  if (const Dict* dict = AsDict()) return !dict->members.empty();
  return AsNamespace() != nullptr;
}

TemplateValue::Extent TemplateValue::extent() const {
  if (const MarkedText* text = AsText()) return {.depth = 0, .weight = std::ssize(text->bytes) + 1};
  if (const List* list = AsList()) return list->extent;
  if (const Dict* dict = AsDict()) return dict->extent;
  return {};
}

std::string_view TemplateValue::TypeName() const {
  if (IsUndefined()) return "undefined";
  if (IsNone()) return "none";
  if (AsBool() != nullptr) return "boolean";
  if (AsInt() != nullptr) return "integer";
  if (AsText() != nullptr) return "string";
  if (AsList() != nullptr) return "list";
  if (AsDict() != nullptr) return "dict";
  return "namespace";
}

bool Equal(const TemplateValue& a, const TemplateValue& b) {
  if (const MarkedText* left = a.AsText(), *right = b.AsText(); left && right)
    return left->bytes == right->bytes;
  if (const auto* left = a.AsList(), *right = b.AsList(); left && right)
    return std::equal(left->items.begin(), left->items.end(), right->items.begin(),
                      right->items.end(), Equal);
  if (const auto* left = a.AsDict(), *right = b.AsDict(); left && right)
    return left->members.size() == right->members.size() &&
           std::all_of(left->members.begin(), left->members.end(), [&](const ValueMember& member) {
             const TemplateValue* other = right->Find(member.first);
             return other != nullptr && Equal(member.second, *other);
           });
  const auto as_int = [](const TemplateValue& value, int64_t* out) {
    if (value.AsInt() != nullptr) *out = *value.AsInt();
    if (value.AsBool() != nullptr) *out = *value.AsBool() ? 1 : 0;
    return value.AsInt() != nullptr || value.AsBool() != nullptr;
  };
  int64_t left = 0;
  int64_t right = 0;
  if (as_int(a, &left) && as_int(b, &right)) return left == right;
  if (a.AsNamespace() != nullptr) return a.AsNamespace() == b.AsNamespace();
  return (a.IsUndefined() && b.IsUndefined()) || (a.IsNone() && b.IsNone());
}

void TemplateBudget::SpendSteps(int64_t count, size_t offset) {
  num_steps_ -= count;
  if (num_steps_ < 0)
    throw TemplateFailure{ErrorKind::kInvalidArgument, offset,
                          "the template takes too many steps to render"};
}

void TemplateBudget::SpendBytes(int64_t count, size_t offset) {
  num_bytes_ -= count;
  if (num_bytes_ < 0)
    throw TemplateFailure{ErrorKind::kInvalidArgument, offset,
                          "the template makes too much text of its input"};
}

void TemplateBudget::SpendSearch(size_t text_size, size_t needle_size, size_t offset) {
  // At worst the two multiply; comparing 64 bytes is as cheap as making one.
  SpendBytes(static_cast<int64_t>((text_size / 64 + 1) * needle_size), offset);
}

}  // namespace flashinfer::engine
