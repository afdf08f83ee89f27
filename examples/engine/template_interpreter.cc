// SPDX-License-Identifier: Apache-2.0
// Walks the tree of a chat template: scopes, control flow and operators.
#include "engine/template_interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <compare>

#include "engine/template_functions.h"
#include "engine/template_text.h"

namespace flashinfer::engine {
namespace {

[[noreturn]] void Fail(size_t offset, std::string message) {
  throw TemplateFailure{ErrorKind::kInvalidArgument, offset, std::move(message)};
}

bool IsNumber(const TemplateValue& value) { return value.AsInt() || value.AsBool(); }

int64_t NumberOf(const TemplateValue& value) {
  return value.AsInt() != nullptr ? *value.AsInt() : (*value.AsBool() ? 1 : 0);
}

/// Rounds towards minus infinity, as Python does.
int64_t FloorDivide(int64_t a, int64_t b) { return a / b - ((a % b != 0 && (a < 0) != (b < 0))); }

class Interpreter {
 public:
  Interpreter(TemplateVariables variables, TemplateBudget budget) : budget_(budget) {
    scopes_.push_back(std::move(variables));
  }

  MarkedText Run(const Block& block) && {
    Execute(block);
    return std::move(output_);
  }

 private:
  enum class Flow { kNext, kBreak, kContinue };

  Flow Execute(const Block& block) {
    for (const Statement& statement : block)
      if (const Flow flow = Execute(statement); flow != Flow::kNext) return flow;
    return Flow::kNext;
  }

  Flow Execute(const Statement& statement) {
    budget_.SpendSteps(1, statement.offset);
    switch (statement.kind) {
      case StatementKind::kText:
        Write(MarkedText::FromTemplate(statement.text), statement.offset);
        break;
      case StatementKind::kOutput: {
        const size_t offset = statement.expression->offset;
        Write(ToText(Evaluate(*statement.expression), offset), offset);
        break;
      }
      case StatementKind::kFor:
        return ExecuteFor(statement);
      case StatementKind::kIf:
        for (const Branch& branch : statement.branches)
          if (Evaluate(*branch.condition).Truth()) return Execute(branch.body);
        return Execute(statement.else_body);
      case StatementKind::kSet:
        ExecuteSet(statement);
        break;
      case StatementKind::kCapture: {
        MarkedText outer = std::exchange(output_, {});
        scopes_.emplace_back();
        Execute(statement.body);
        scopes_.pop_back();
        std::swap(outer, output_);
        Assign(statement.targets[0], TemplateValue(std::move(outer)));
        break;
      }
      case StatementKind::kBreak:
        return Flow::kBreak;
      case StatementKind::kContinue:
        return Flow::kContinue;
    }
    return Flow::kNext;
  }

  void Write(const MarkedText& text, size_t offset) {
    budget_.SpendBytes(std::ssize(text.bytes), offset);
    output_.Append(text);
  }

  void Assign(const std::string& name, TemplateValue value) {
    scopes_.back().insert_or_assign(name, std::move(value));
  }

  void AssignAll(const std::vector<std::string>& targets, const TemplateValue& value,
                 size_t offset) {
    if (targets.size() == 1) return Assign(targets[0], value);
    const auto* list = value.AsList();
    if (list == nullptr || list->items.size() != targets.size())
      Fail(offset,
           fmt::format("{} names are given, the value is not a list of as many", targets.size()));
    for (size_t i = 0; i < targets.size(); ++i) Assign(targets[i], list->items[i]);
  }

  void ExecuteSet(const Statement& set) {
    TemplateValue value = Evaluate(*set.expression);
    if (set.attribute.empty()) return AssignAll(set.targets, value, set.offset);
    TemplateValue::Namespace* space = Find(set.targets[0]).AsNamespace();
    if (space == nullptr) Fail(set.offset, fmt::format("{} is no namespace", set.targets[0]));
    if (value.AsNamespace() != nullptr)
      throw TemplateFailure{ErrorKind::kUnsupported, set.offset,
                            "a namespace inside another value"};
    space->members.insert_or_assign(set.attribute, std::move(value));
  }

  /// The items of the loop, of which the condition takes some.
  ValueList ItemsOfLoop(const Statement& loop) {
    ValueList items = ItemsOf(Evaluate(*loop.expression), loop.offset, budget_);
    if (loop.condition == nullptr) return items;
    scopes_.emplace_back();
    std::erase_if(items, [&](const TemplateValue& item) {
      AssignAll(loop.targets, item, loop.offset);
      return !Evaluate(*loop.condition).Truth();
    });
    scopes_.pop_back();
    return items;
  }

  static TemplateValue LoopVariable(const ValueList& items, size_t i, size_t offset) {
    const auto integer = [](size_t value) { return TemplateValue(static_cast<int64_t>(value)); };
    const size_t size = items.size();
    std::vector<ValueMember> members = {
        {"index", integer(i + 1)},        {"index0", integer(i)},
        {"revindex", integer(size - i)},  {"revindex0", integer(size - i - 1)},
        {"first", TemplateValue(i == 0)}, {"last", TemplateValue(i + 1 == size)},
        {"length", integer(size)}};
    if (i > 0) members.emplace_back("previtem", items[i - 1]);
    if (i + 1 < size) members.emplace_back("nextitem", items[i + 1]);
    return TemplateValue::MakeDict(std::move(members), offset);
  }

  Flow ExecuteFor(const Statement& loop) {
    const ValueList items = ItemsOfLoop(loop);
    if (items.empty()) return Execute(loop.else_body);
    for (size_t i = 0; i < items.size(); ++i) {
      budget_.SpendSteps(1, loop.offset);
      scopes_.emplace_back();
      AssignAll(loop.targets, items[i], loop.offset);
      Assign("loop", LoopVariable(items, i, loop.offset));
      const Flow flow = Execute(loop.body);
      scopes_.pop_back();
      if (flow == Flow::kBreak) break;
    }
    return Flow::kNext;
  }

  TemplateValue Find(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto found = scope->find(name); found != scope->end()) return found->second;
    return {};
  }

  TemplateValue Evaluate(const Expression& e) {
    budget_.SpendSteps(1, e.offset);
    switch (e.kind) {
      case ExpressionKind::kLiteral:
        return e.literal;
      case ExpressionKind::kName:
        return Find(e.name);
      case ExpressionKind::kList: {
        ValueList items;
        for (const ExpressionPtr& operand : e.operands) items.push_back(Evaluate(*operand));
        return TemplateValue::MakeList(std::move(items), e.offset);
      }
      case ExpressionKind::kDict:
        return EvaluateDict(e);
      case ExpressionKind::kAttribute:
        return MemberOf(Evaluate(*e.operands[0]), e.name, e.offset);
      case ExpressionKind::kIndex:
        return EvaluateIndex(e);
      case ExpressionKind::kSlice: {
        const auto part = [&](size_t i) {
          return e.operands[i] == nullptr ? TemplateValue() : Evaluate(*e.operands[i]);
        };
        return SliceOf(part(0), part(1), part(2), part(3), e.offset, budget_);
      }
      case ExpressionKind::kCall:
        return CallFunction(MakeCall(e));
      case ExpressionKind::kMethod:
        return CallMethod(MakeCall(e));
      case ExpressionKind::kFilter:
        return ApplyFilter(MakeCall(e));
      case ExpressionKind::kTest:
        return TemplateValue(ApplyTest(MakeCall(e)));
      case ExpressionKind::kNot:
        return TemplateValue(!Evaluate(*e.operands[0]).Truth());
      case ExpressionKind::kNegate:
        return Negate(e);
      case ExpressionKind::kAnd:
      case ExpressionKind::kOr: {
        TemplateValue left = Evaluate(*e.operands[0]);
        return left.Truth() == (e.kind == ExpressionKind::kOr) ? left : Evaluate(*e.operands[1]);
      }
      case ExpressionKind::kBinary: {
        const TemplateValue left = Evaluate(*e.operands[0]);
        return Binary(e, left, Evaluate(*e.operands[1]));
      }
      case ExpressionKind::kConditional: {
        const ExpressionPtr& taken = e.operands[Evaluate(*e.operands[1]).Truth() ? 0 : 2];
        return taken == nullptr ? TemplateValue() : Evaluate(*taken);
      }
    }
    return {};
  }

  TemplateCall MakeCall(const Expression& e) {
    TemplateCall call{e.name, e.offset, {}, {}, {}, budget_};
    if (!e.operands.empty()) call.subject = Evaluate(*e.operands[0]);
    for (const ExpressionPtr& argument : e.arguments) call.arguments.push_back(Evaluate(*argument));
    for (const auto& [name, argument] : e.named_arguments)
      call.named_arguments.emplace_back(name, Evaluate(*argument));
    return call;
  }

  TemplateValue EvaluateDict(const Expression& e) {
    std::vector<ValueMember> members;
    for (size_t i = 0; i < e.operands.size(); i += 2) {
      const TemplateValue key = Evaluate(*e.operands[i]);
      if (key.AsText() == nullptr)
        throw TemplateFailure{ErrorKind::kUnsupported, e.operands[i]->offset,
                              fmt::format("a dict key that is {}", key.TypeName())};
      members.emplace_back(key.AsText()->bytes, Evaluate(*e.operands[i + 1]));
    }
    return TemplateValue::MakeDict(std::move(members), e.offset);
  }

  TemplateValue EvaluateIndex(const Expression& e) {
    const TemplateValue subject = Evaluate(*e.operands[0]);
    const TemplateValue index = Evaluate(*e.operands[1]);
    if (const MarkedText* key = index.AsText()) return MemberOf(subject, key->bytes, e.offset);
    const int64_t* number = index.AsInt();
    if (number == nullptr || (subject.AsList() == nullptr && subject.AsText() == nullptr))
      Fail(e.offset, fmt::format("{} has no item at {}", subject.TypeName(), index.TypeName()));
    if (const auto* list = subject.AsList()) {
      const int64_t size = std::ssize(list->items);
      const int64_t i = *number < 0 ? *number + size : *number;
      return i >= 0 && i < size ? list->items[i] : TemplateValue();
    }
    budget_.SpendBytes(std::ssize(subject.AsText()->bytes), e.offset);
    const std::vector<size_t> begins = CharBegins(subject.AsText()->bytes);
    const int64_t size = std::ssize(begins) - 1;
    const int64_t i = *number < 0 ? *number + size : *number;
    if (i < 0 || i >= size) return {};
    return TemplateValue(subject.AsText()->Slice(begins[i], begins[i + 1]));
  }

  static TemplateValue MemberOf(const TemplateValue& subject, const std::string& name,
                                size_t offset) {
    if (const auto* dict = subject.AsDict()) {
      const TemplateValue* member = dict->Find(name);
      return member == nullptr ? TemplateValue() : *member;
    }
    if (const auto* space = subject.AsNamespace()) {
      const auto found = space->members.find(name);
      return found == space->members.end() ? TemplateValue() : found->second;
    }
    if (subject.IsUndefined())
      Fail(offset, fmt::format("\"{}\" is asked of something undefined", name));
    return {};
  }

  TemplateValue Negate(const Expression& e) {
    const TemplateValue value = Evaluate(*e.operands[0]);
    if (!IsNumber(value)) Fail(e.offset, fmt::format("- of {}", value.TypeName()));
    return TemplateValue(-NumberOf(value));  // integers stay below 2^62 in size
  }

  TemplateValue Binary(const Expression& e, const TemplateValue& a, const TemplateValue& b) {
    const std::string& op = e.name;
    if (op == "==" || op == "!=") {
      budget_.SpendBytes(a.extent().weight / 16, e.offset);
      return TemplateValue(Equal(a, b) == (op == "=="));
    }
    if (op == "in") return TemplateValue(IsIn(e, a, b));
    if (op == "~" || (op == "+" && a.AsText() && b.AsText())) {
      budget_.SpendBytes(a.extent().weight + b.extent().weight, e.offset);
      MarkedText text = ToText(a, e.offset);
      text.Append(ToText(b, e.offset));
      return TemplateValue(std::move(text));
    }
    if (op == "+" && a.AsList() && b.AsList()) {
      ValueList items = a.AsList()->items;
      items.insert(items.end(), b.AsList()->items.begin(), b.AsList()->items.end());
      budget_.SpendSteps(std::ssize(items), e.offset);
      return TemplateValue::MakeList(std::move(items), e.offset);
    }
    if (op == "*" && a.AsText() && b.AsInt()) return Repeat(e, *a.AsText(), *b.AsInt());
    const bool is_order = op.front() == '<' || op.front() == '>';
    if (is_order && a.AsText() && b.AsText())
      return TemplateValue(Holds(op, a.AsText()->bytes <=> b.AsText()->bytes));
    if (!IsNumber(a) || !IsNumber(b))
      Fail(e.offset, fmt::format("{} of {} and {}", op, a.TypeName(), b.TypeName()));
    if (is_order) return TemplateValue(Holds(op, NumberOf(a) <=> NumberOf(b)));
    return TemplateValue(Arithmetic(e, NumberOf(a), NumberOf(b)));
  }

  static bool Holds(std::string_view op, std::strong_ordering order) {
    if (op == "<") return order < 0;
    if (op == "<=") return order <= 0;
    return op == ">" ? order > 0 : order >= 0;
  }

  static int64_t Arithmetic(const Expression& e, int64_t a, int64_t b) {
    constexpr int64_t kMax = int64_t{1} << 62;
    const std::string& op = e.name;
    int64_t result = 0;
    bool overflows = false;
    if ((op == "//" || op == "%") && b == 0) Fail(e.offset, "a division by 0");
    if (op == "+") overflows = __builtin_add_overflow(a, b, &result);
    if (op == "-") overflows = __builtin_sub_overflow(a, b, &result);
    if (op == "*") overflows = __builtin_mul_overflow(a, b, &result);
    if (op == "//") result = FloorDivide(a, b);
    if (op == "%") result = a - FloorDivide(a, b) * b;
    if (overflows || result > kMax || result < -kMax)
      Fail(e.offset, fmt::format("{} {} {} is too large", a, op, b));
    return result;
  }

  TemplateValue Repeat(const Expression& e, const MarkedText& text, int64_t count) {
    MarkedText repeated;
    for (int64_t i = 0; i < count; ++i) {
      budget_.SpendBytes(std::ssize(text.bytes) + 1, e.offset);
      repeated.Append(text);
    }
    return TemplateValue(std::move(repeated));
  }

  bool IsIn(const Expression& e, const TemplateValue& item, const TemplateValue& container) {
    if (const MarkedText* text = container.AsText()) {
      if (item.AsText() == nullptr) Fail(e.offset, fmt::format("{} in a string", item.TypeName()));
      budget_.SpendSearch(text->size(), item.AsText()->size(), e.offset);
      return text->bytes.find(item.AsText()->bytes) != std::string::npos;
    }
    if (const auto* list = container.AsList()) {
      budget_.SpendBytes(list->extent.weight / 16, e.offset);
      return std::any_of(list->items.begin(), list->items.end(),
                         [&](const TemplateValue& each) { return Equal(each, item); });
    }
    if (const auto* dict = container.AsDict())
      return item.AsText() != nullptr && dict->Find(item.AsText()->bytes) != nullptr;
    if (container.IsUndefined()) return false;
    Fail(e.offset, fmt::format("in of {}", container.TypeName()));
  }

  TemplateBudget budget_;
  std::vector<TemplateVariables> scopes_;
  MarkedText output_;
};

}  // namespace

MarkedText RunTemplate(const Block& block, TemplateVariables variables, TemplateBudget budget) {
  return Interpreter(std::move(variables), budget).Run(block);
}

}  // namespace flashinfer::engine
