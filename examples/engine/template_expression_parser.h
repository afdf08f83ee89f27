// SPDX-License-Identifier: Apache-2.0
// Parses the expressions of chat templates, with Jinja's precedence.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "engine/template_ast.h"
#include "engine/template_lexer.h"

namespace flashinfer::engine {

/// Reads tokens one after the other.
class TokenStream {
 public:
  explicit TokenStream(std::vector<TemplateToken> tokens) : tokens_(std::move(tokens)) {}

  const TemplateToken& Peek(size_t ahead = 0) const {
    return tokens_[std::min(next_ + ahead, tokens_.size() - 1)];
  }
  TemplateToken Take() { return tokens_[next_ + 1 < tokens_.size() ? next_++ : next_]; }
  bool AtOperator(std::string_view text) const;
  bool AtName(std::string_view text) const;
  /// Takes the token if it is that one.
  bool TakeOperator(std::string_view text);
  bool TakeName(std::string_view text);
  void ExpectOperator(std::string_view text);
  /// Any name that is not a word of the language.
  std::string ExpectIdentifier();
  [[noreturn]] void FailExpected(std::string_view what) const;

 private:
  std::vector<TemplateToken> tokens_;
  size_t next_ = 0;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  ExpressionPtr Parse();
  /// Without `a if b else c`: what a loop runs over, where `if` begins its filter, and conditions.
  ExpressionPtr ParseWithoutConditional();

 private:
  class Nesting;
  using Rule = ExpressionPtr (ExpressionParser::*)();

  ExpressionPtr ParseAnd();
  ExpressionPtr ParseNot();
  ExpressionPtr ParseComparison();
  ExpressionPtr ParseSum();
  ExpressionPtr ParseConcatenation();
  ExpressionPtr ParseProduct();
  ExpressionPtr ParseUnary();
  ExpressionPtr ParsePrimary();
  ExpressionPtr ParsePostfix(ExpressionPtr subject);
  ExpressionPtr ParseSubscript(ExpressionPtr subject);
  ExpressionPtr ParseFiltersAndTests(ExpressionPtr subject);
  ExpressionPtr ParseTest(ExpressionPtr subject);
  ExpressionPtr ParseList();
  ExpressionPtr ParseDict();
  void ParseArguments(Expression& call);
  ExpressionPtr ParseChain(Rule operand, std::initializer_list<std::string_view> operators);

  TokenStream& tokens_;
  int nesting_ = 0;
};

}  // namespace flashinfer::engine
