// SPDX-License-Identifier: Apache-2.0
// Recursive descent over expressions; depth is bounded here, so that walking a tree needs no check.
#include "engine/template_expression_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace flashinfer::engine {
namespace {

constexpr int kMaxNesting = 64;  // of brackets and unary operators
constexpr int kMaxDepth = 256;   // of a tree, which chains such as a + b + c make deep, too

constexpr auto kReservedWords =
    std::to_array<std::string_view>({"and", "or", "not", "in", "is", "if", "else", "elif", "for"});

bool IsReserved(std::string_view name) {
  return std::find(kReservedWords.begin(), kReservedWords.end(), name) != kReservedWords.end();
}

ExpressionPtr MakeNode(ExpressionKind kind, size_t offset, std::string name = "") {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->offset = offset;
  node->name = std::move(name);
  return node;
}

void CountDepth(Expression& node, const ExpressionPtr& child) {
  if (child == nullptr) return;
  node.depth = std::max(node.depth, child->depth + 1);
  if (node.depth > kMaxDepth)
    throw TemplateFailure{ErrorKind::kUnsupported, node.offset,
                          fmt::format("an expression deeper than {}", kMaxDepth)};
}

void AddOperand(Expression& node, ExpressionPtr operand) {
  CountDepth(node, operand);
  node.operands.push_back(std::move(operand));
}

ExpressionPtr MakeLiteral(size_t offset, TemplateValue value) {
  ExpressionPtr node = MakeNode(ExpressionKind::kLiteral, offset);
  node->literal = std::move(value);
  return node;
}

}  // namespace

bool TokenStream::AtOperator(std::string_view text) const {
  return Peek().kind == TemplateTokenKind::kOperator && Peek().text == text;
}

bool TokenStream::AtName(std::string_view text) const {
  return Peek().kind == TemplateTokenKind::kName && Peek().text == text;
}

bool TokenStream::TakeOperator(std::string_view text) {
  if (!AtOperator(text)) return false;
  Take();
  return true;
}

bool TokenStream::TakeName(std::string_view text) {
  if (!AtName(text)) return false;
  Take();
  return true;
}

void TokenStream::ExpectOperator(std::string_view text) {
  if (!TakeOperator(text)) FailExpected(text);
}

std::string TokenStream::ExpectIdentifier() {
  if (Peek().kind != TemplateTokenKind::kName || IsReserved(Peek().text)) FailExpected("a name");
  return Take().text;
}

void TokenStream::FailExpected(std::string_view what) const {
  const TemplateToken& token = Peek();
  const bool has_text = token.kind != TemplateTokenKind::kEnd;
  throw TemplateFailure{ErrorKind::kInvalidArgument, token.offset,
                        fmt::format("{} is expected, found {}", what,
                                    has_text ? "\"" + token.text + "\"" : "the end")};
}

/// Counts how deep the parser has called itself.
class ExpressionParser::Nesting {
 public:
  Nesting(int& count, size_t offset) : count_(count) {
    if (count_ >= kMaxNesting)
      throw TemplateFailure{ErrorKind::kUnsupported, offset,
                            fmt::format("an expression nested deeper than {}", kMaxNesting)};
    ++count_;
  }
  ~Nesting() { --count_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  int& count_;
};

ExpressionPtr ExpressionParser::Parse() {
  const Nesting nesting(nesting_, tokens_.Peek().offset);
  ExpressionPtr value = ParseWithoutConditional();
  while (tokens_.AtName("if")) {
    ExpressionPtr node = MakeNode(ExpressionKind::kConditional, tokens_.Take().offset);
    AddOperand(*node, std::move(value));
    AddOperand(*node, ParseWithoutConditional());
    AddOperand(*node, tokens_.TakeName("else") ? Parse() : nullptr);
    value = std::move(node);
  }
  return value;
}

ExpressionPtr ExpressionParser::ParseWithoutConditional() {
  ExpressionPtr left = ParseAnd();
  while (tokens_.AtName("or")) {
    ExpressionPtr node = MakeNode(ExpressionKind::kOr, tokens_.Take().offset);
    AddOperand(*node, std::move(left));
    AddOperand(*node, ParseAnd());
    left = std::move(node);
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseAnd() {
  ExpressionPtr left = ParseNot();
  while (tokens_.AtName("and")) {
    ExpressionPtr node = MakeNode(ExpressionKind::kAnd, tokens_.Take().offset);
    AddOperand(*node, std::move(left));
    AddOperand(*node, ParseNot());
    left = std::move(node);
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseNot() {
  if (!tokens_.AtName("not")) return ParseComparison();
  const Nesting nesting(nesting_, tokens_.Peek().offset);
  ExpressionPtr node = MakeNode(ExpressionKind::kNot, tokens_.Take().offset);
  AddOperand(*node, ParseNot());
  return node;
}

ExpressionPtr ExpressionParser::ParseComparison() {
  ExpressionPtr left = ParseSum();
  for (bool compared = false;; compared = true) {
    const size_t offset = tokens_.Peek().offset;
    const bool not_in = tokens_.AtName("not") && tokens_.Peek(1).text == "in";
    std::string op;
    for (const std::string_view known : {"==", "!=", "<=", ">=", "<", ">"})
      if (tokens_.AtOperator(known)) op = known;
    if (not_in || tokens_.AtName("in")) op = "in";
    if (op.empty()) return left;
    if (compared) throw TemplateFailure{ErrorKind::kUnsupported, offset, "a chain of comparisons"};
    tokens_.Take();
    if (not_in) tokens_.Take();
    ExpressionPtr node = MakeNode(ExpressionKind::kBinary, offset, std::move(op));
    AddOperand(*node, std::move(left));
    AddOperand(*node, ParseSum());
    left = std::move(node);
    if (!not_in) continue;
    node = MakeNode(ExpressionKind::kNot, offset);
    AddOperand(*node, std::move(left));
    left = std::move(node);
  }
}

ExpressionPtr ExpressionParser::ParseChain(Rule operand,
                                           std::initializer_list<std::string_view> operators) {
  ExpressionPtr left = (this->*operand)();
  for (;;) {
    const auto* op = std::find_if(operators.begin(), operators.end(),
                                  [&](std::string_view text) { return tokens_.AtOperator(text); });
    if (op == operators.end()) return left;
    ExpressionPtr node = MakeNode(ExpressionKind::kBinary, tokens_.Take().offset, std::string(*op));
    AddOperand(*node, std::move(left));
    AddOperand(*node, (this->*operand)());
    left = std::move(node);
  }
}

ExpressionPtr ExpressionParser::ParseSum() {
  return ParseChain(&ExpressionParser::ParseConcatenation, {"+", "-"});
}

ExpressionPtr ExpressionParser::ParseConcatenation() {
  return ParseChain(&ExpressionParser::ParseProduct, {"~"});
}

ExpressionPtr ExpressionParser::ParseProduct() {
  ExpressionPtr product = ParseChain(&ExpressionParser::ParseUnary, {"*", "//", "%"});
  for (const std::string_view op : {"/", "**"})
    if (tokens_.AtOperator(op))
      throw TemplateFailure{ErrorKind::kUnsupported, tokens_.Peek().offset,
                            fmt::format("the operator {}", op)};
  return product;
}

ExpressionPtr ExpressionParser::ParseUnary() {
  if (!tokens_.AtOperator("-") && !tokens_.AtOperator("+"))
    return ParseFiltersAndTests(ParsePostfix(ParsePrimary()));
  const Nesting nesting(nesting_, tokens_.Peek().offset);
  const TemplateToken sign = tokens_.Take();
  ExpressionPtr operand = ParseUnary();
  if (sign.text == "+") return operand;
  ExpressionPtr node = MakeNode(ExpressionKind::kNegate, sign.offset);
  AddOperand(*node, std::move(operand));
  return node;
}

ExpressionPtr ExpressionParser::ParsePrimary() {
  const size_t offset = tokens_.Peek().offset;
  switch (tokens_.Peek().kind) {
    case TemplateTokenKind::kString: {
      std::string text;
      while (tokens_.Peek().kind == TemplateTokenKind::kString) text += tokens_.Take().text;
      return MakeLiteral(offset, TemplateValue(MarkedText::FromTemplate(text)));
    }
    case TemplateTokenKind::kInteger: {
      const std::string text = tokens_.Take().text;
      int64_t value = 0;
      std::from_chars(text.data(), text.data() + text.size(), value);
      return MakeLiteral(offset, TemplateValue(value));
    }
    case TemplateTokenKind::kName: {
      std::string name = tokens_.ExpectIdentifier();
      if (name == "true" || name == "True") return MakeLiteral(offset, TemplateValue(true));
      if (name == "false" || name == "False") return MakeLiteral(offset, TemplateValue(false));
      if (name == "none" || name == "None") return MakeLiteral(offset, TemplateValue::MakeNone());
      return MakeNode(ExpressionKind::kName, offset, std::move(name));
    }
    default:
      break;
  }
  if (tokens_.AtOperator("[")) return ParseList();
  if (tokens_.AtOperator("{")) return ParseDict();
  if (!tokens_.TakeOperator("(")) tokens_.FailExpected("an expression");
  ExpressionPtr inner = Parse();
  if (tokens_.AtOperator(","))
    throw TemplateFailure{ErrorKind::kUnsupported, tokens_.Peek().offset, "a tuple"};
  tokens_.ExpectOperator(")");
  return inner;
}

ExpressionPtr ExpressionParser::ParseList() {
  ExpressionPtr node = MakeNode(ExpressionKind::kList, tokens_.Take().offset);
  while (!tokens_.TakeOperator("]")) {
    AddOperand(*node, Parse());
    if (!tokens_.AtOperator("]")) tokens_.ExpectOperator(",");
  }
  return node;
}

ExpressionPtr ExpressionParser::ParseDict() {
  ExpressionPtr node = MakeNode(ExpressionKind::kDict, tokens_.Take().offset);
  while (!tokens_.TakeOperator("}")) {
    AddOperand(*node, Parse());
    tokens_.ExpectOperator(":");
    AddOperand(*node, Parse());
    if (!tokens_.AtOperator("}")) tokens_.ExpectOperator(",");
  }
  return node;
}

ExpressionPtr ExpressionParser::ParsePostfix(ExpressionPtr subject) {
  for (;;) {
    const size_t offset = tokens_.Peek().offset;
    if (tokens_.TakeOperator(".")) {
      ExpressionPtr node;
      if (tokens_.Peek().kind == TemplateTokenKind::kInteger) {
        node = MakeNode(ExpressionKind::kIndex, offset);
        AddOperand(*node, std::move(subject));
        AddOperand(*node, ParsePrimary());
      } else {
        if (tokens_.Peek().kind != TemplateTokenKind::kName) tokens_.FailExpected("a name");
        node = MakeNode(ExpressionKind::kAttribute, offset, tokens_.Take().text);
        AddOperand(*node, std::move(subject));
      }
      subject = std::move(node);
    } else if (tokens_.TakeOperator("[")) {
      subject = ParseSubscript(std::move(subject));
    } else if (tokens_.AtOperator("(")) {
      if (subject->kind == ExpressionKind::kName)
        subject->kind = ExpressionKind::kCall;
      else if (subject->kind == ExpressionKind::kAttribute)
        subject->kind = ExpressionKind::kMethod;
      else
        throw TemplateFailure{ErrorKind::kUnsupported, offset, "a call of an expression"};
      ParseArguments(*subject);
    } else {
      return subject;
    }
  }
}

ExpressionPtr ExpressionParser::ParseSubscript(ExpressionPtr subject) {
  const size_t offset = tokens_.Peek().offset;
  std::array<ExpressionPtr, 3> parts;
  size_t num_parts = 0;
  bool is_slice = false;
  for (;; ++num_parts) {
    if (!tokens_.AtOperator(":") && !tokens_.AtOperator("]")) parts[num_parts] = Parse();
    if (num_parts == 2 || !tokens_.TakeOperator(":")) break;
    is_slice = true;
  }
  tokens_.ExpectOperator("]");
  if (!is_slice && parts[0] == nullptr) tokens_.FailExpected("an index");
  ExpressionPtr node = MakeNode(is_slice ? ExpressionKind::kSlice : ExpressionKind::kIndex, offset);
  AddOperand(*node, std::move(subject));
  for (size_t i = 0; i < (is_slice ? 3 : 1); ++i) AddOperand(*node, std::move(parts[i]));
  return node;
}

void ExpressionParser::ParseArguments(Expression& call) {
  tokens_.ExpectOperator("(");
  while (!tokens_.TakeOperator(")")) {
    const bool is_named = tokens_.Peek().kind == TemplateTokenKind::kName &&
                          tokens_.Peek(1).kind == TemplateTokenKind::kOperator &&
                          tokens_.Peek(1).text == "=";
    std::string name;
    if (is_named) {
      name = tokens_.Take().text;
      tokens_.Take();
    }
    ExpressionPtr value = Parse();
    CountDepth(call, value);
    if (is_named)
      call.named_arguments.emplace_back(std::move(name), std::move(value));
    else
      call.arguments.push_back(std::move(value));
    if (!tokens_.AtOperator(")")) tokens_.ExpectOperator(",");
  }
}

ExpressionPtr ExpressionParser::ParseFiltersAndTests(ExpressionPtr subject) {
  for (;;) {
    const size_t offset = tokens_.Peek().offset;
    if (tokens_.TakeOperator("|")) {
      ExpressionPtr node = MakeNode(ExpressionKind::kFilter, offset, tokens_.ExpectIdentifier());
      AddOperand(*node, std::move(subject));
      if (tokens_.AtOperator("(")) ParseArguments(*node);
      subject = std::move(node);
    } else if (tokens_.TakeName("is")) {
      subject = ParseTest(std::move(subject));
    } else {
      return subject;
    }
  }
}

ExpressionPtr ExpressionParser::ParseTest(ExpressionPtr subject) {
  const size_t offset = tokens_.Peek().offset;
  const bool negated = tokens_.TakeName("not");
  // `in` is a word of the language and the name of a test.
  std::string name = tokens_.TakeName("in") ? "in" : tokens_.ExpectIdentifier();
  ExpressionPtr node = MakeNode(ExpressionKind::kTest, offset, std::move(name));
  AddOperand(*node, std::move(subject));
  const TemplateToken& next = tokens_.Peek();
  const bool begins_argument = next.kind == TemplateTokenKind::kString ||
                               next.kind == TemplateTokenKind::kInteger ||
                               (next.kind == TemplateTokenKind::kName && !IsReserved(next.text)) ||
                               tokens_.AtOperator("[") || tokens_.AtOperator("{");
  if (tokens_.AtOperator("(")) {
    ParseArguments(*node);
  } else if (begins_argument) {
    ExpressionPtr argument = ParsePostfix(ParsePrimary());
    CountDepth(*node, argument);
    node->arguments.push_back(std::move(argument));
  }
  if (!negated) return node;
  ExpressionPtr negation = MakeNode(ExpressionKind::kNot, offset);
  AddOperand(*negation, std::move(node));
  return negation;
}

}  // namespace flashinfer::engine
