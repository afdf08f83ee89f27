// SPDX-License-Identifier: Apache-2.0
// Values of a chat template: marked text, integers, lists, dicts, and what bounds their making.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/tokenizer.h"
#include "flashinfer/error.h"

namespace flashinfer::engine {

/// A failure at a byte of the template; ChatTemplate gives it line and column.
struct TemplateFailure {
  ErrorKind kind;
  size_t offset;
  std::string message;
};

/// Text that knows of each byte whether the user or the template wrote it.
struct MarkedText {
  std::string bytes;
  std::string marks;  ///< [bytes], kTemplateMark or kUserMark

  static constexpr char kTemplateMark = 't';
  static constexpr char kUserMark = 'u';

  static MarkedText FromTemplate(std::string_view text);
  static MarkedText FromUser(std::string_view text);

  size_t size() const { return bytes.size(); }
  void Append(std::string_view text, char mark);
  void Append(const MarkedText& other);
  MarkedText Slice(size_t begin, size_t end) const;
};

class TemplateValue;
using ValueList = std::vector<TemplateValue>;
using ValueMember = std::pair<std::string, TemplateValue>;

/// Immutable, except for a namespace's members; copies share.
class TemplateValue {
 public:
  struct Undefined {
    friend bool operator==(Undefined, Undefined) = default;
  };
  struct None {
    friend bool operator==(None, None) = default;
  };
  /// How deep a value is nested, and how many members and bytes a walk over it meets, which
  /// sharing can make exponentially more than it occupies.
  struct Extent {
    int depth = 0;
    int64_t weight = 1;
  };
  struct List {
    ValueList items;
    Extent extent;
  };
  /// In order of writing; templates have few members, so they are searched one by one.
  struct Dict {
    std::vector<ValueMember> members;
    Extent extent;
    const TemplateValue* Find(std::string_view key) const;
  };
  struct Namespace {
    std::map<std::string, TemplateValue, std::less<>> members;
  };

  TemplateValue() = default;
  explicit TemplateValue(bool value) : value_(value) {}
  explicit TemplateValue(int64_t value) : value_(value) {}
  explicit TemplateValue(MarkedText text)
      : value_(std::make_shared<const MarkedText>(std::move(text))) {}
  static TemplateValue MakeNone();
  /// Containers throw TemplateFailure when nested too deep or when they would hold a namespace,
  /// which keeps values free of cycles.
  static TemplateValue MakeList(ValueList items, size_t offset);
  static TemplateValue MakeDict(std::vector<ValueMember> members, size_t offset);
  static TemplateValue MakeNamespace();

  /// The value as a T, or null when it is something else.
  const bool* AsBool() const { return std::get_if<bool>(&value_); }
  const int64_t* AsInt() const { return std::get_if<int64_t>(&value_); }
  const MarkedText* AsText() const { return Shared<const MarkedText>(); }
  const List* AsList() const { return Shared<const List>(); }
  const Dict* AsDict() const { return Shared<const Dict>(); }
  Namespace* AsNamespace() const { return Shared<Namespace>(); }
  bool IsUndefined() const { return std::holds_alternative<Undefined>(value_); }
  bool IsNone() const { return std::holds_alternative<None>(value_); }

  bool Truth() const;
  Extent extent() const;
  /// `string`, `none`, …, for messages.
  std::string_view TypeName() const;
  friend bool Equal(const TemplateValue& a, const TemplateValue& b);

 private:
  template <class T>
  T* Shared() const {
    const auto* shared = std::get_if<std::shared_ptr<T>>(&value_);
    return shared == nullptr ? nullptr : shared->get();
  }

  std::variant<Undefined, None, bool, int64_t, std::shared_ptr<const MarkedText>,
               std::shared_ptr<const List>, std::shared_ptr<const Dict>, std::shared_ptr<Namespace>>
      value_;
};

/// What rendering may still spend; a hostile template runs out instead of running on. Whatever
/// takes time or memory in proportion to a value spends first.
class TemplateBudget {
 public:
  TemplateBudget(int64_t num_steps, int64_t num_bytes)
      : num_steps_(num_steps), num_bytes_(num_bytes) {}

  /// Both throw TemplateFailure when nothing is left.
  void SpendSteps(int64_t count, size_t offset);
  void SpendBytes(int64_t count, size_t offset);
  /// For a search of `needle_size` bytes among `text_size`.
  void SpendSearch(size_t text_size, size_t needle_size, size_t offset);

 private:
  int64_t num_steps_;
  int64_t num_bytes_;
};

}  // namespace flashinfer::engine
