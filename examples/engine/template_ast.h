// SPDX-License-Identifier: Apache-2.0
// The tree of a parsed chat template.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/template_value.h"

namespace flashinfer::engine {

enum class ExpressionKind {
  kLiteral,      ///< literal
  kName,         ///< name
  kList,         ///< operands
  kDict,         ///< operands: key, value, key, value, …
  kAttribute,    ///< operands[0].name
  kIndex,        ///< operands[0][operands[1]]
  kSlice,        ///< operands[0][[1]:[2]:[3]], null where left out
  kCall,         ///< name(arguments), a function
  kMethod,       ///< operands[0].name(arguments)
  kFilter,       ///< operands[0] | name(arguments)
  kTest,         ///< operands[0] is name(arguments)
  kNot,          ///< not operands[0]
  kNegate,       ///< -operands[0]
  kAnd,          ///< operands[0] and operands[1]
  kOr,           ///< operands[0] or operands[1]
  kBinary,       ///< operands[0] name operands[1]: + - * // % ~ == != < <= > >= in
  kConditional,  ///< operands[0] if operands[1] else operands[2], the last may be null
};

struct Expression {
  ExpressionKind kind;
  size_t offset;
  std::string name;
  TemplateValue literal;
  std::vector<std::unique_ptr<Expression>> operands;
  std::vector<std::unique_ptr<Expression>> arguments;
  std::vector<std::pair<std::string, std::unique_ptr<Expression>>> named_arguments;
  int depth = 1;  ///< of the tree below, this node included
};
using ExpressionPtr = std::unique_ptr<Expression>;

enum class StatementKind {
  kText,     ///< text
  kOutput,   ///< expression
  kFor,      ///< for targets in expression if condition: body; else: else_body
  kIf,       ///< branches, else_body
  kSet,      ///< targets = expression; or targets[0].attribute = expression
  kCapture,  ///< set targets[0]: what body writes
  kBreak,
  kContinue,
};

struct Statement;
using Block = std::vector<Statement>;

struct Branch {
  ExpressionPtr condition;
  Block body;
};

struct Statement {
  StatementKind kind;
  size_t offset;
  std::string text;
  ExpressionPtr expression;
  ExpressionPtr condition;
  std::vector<std::string> targets;
  std::string attribute;
  std::vector<Branch> branches;
  Block body;
  Block else_body;
};

}  // namespace flashinfer::engine
