// SPDX-License-Identifier: Apache-2.0
// Parses the statements of chat templates.
#include "engine/template_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "engine/template_expression_parser.h"
#include "engine/template_lexer.h"

namespace flashinfer::engine {
namespace {

constexpr int kMaxNesting = 64;  // of statements

class StatementParser {
 public:
  explicit StatementParser(std::string_view source)
      : tokens_(LexTemplate(source)), expressions_(tokens_) {}

  Block Run() && { return ParseBlock({}); }

 private:
  /// Statements up to a tag that begins with one of `ends`, the tag's name not yet taken; up to
  /// the end of the template when `ends` is empty.
  Block ParseBlock(std::initializer_list<std::string_view> ends) {
    const size_t begin = tokens_.Peek().offset;
    if (++nesting_ > kMaxNesting)
      throw TemplateFailure{ErrorKind::kUnsupported, begin,
                            fmt::format("statements nested deeper than {}", kMaxNesting)};
    Block block;
    for (;;) {
      const size_t offset = tokens_.Peek().offset;
      const TemplateTokenKind kind = tokens_.Peek().kind;
      if (kind == TemplateTokenKind::kEnd) {
        if (ends.size() > 0) tokens_.FailExpected(fmt::format("{{% {} %}}", *(ends.end() - 1)));
        break;
      }
      TemplateToken token = tokens_.Take();
      if (kind == TemplateTokenKind::kText) {
        Statement& statement = Add(block, StatementKind::kText, offset);
        statement.text = std::move(token.text);
      } else if (kind == TemplateTokenKind::kOutputBegin) {
        Add(block, StatementKind::kOutput, offset).expression = expressions_.Parse();
        ExpectEnd(TemplateTokenKind::kOutputEnd, "}}");
      } else {
        const bool is_end = std::any_of(
            ends.begin(), ends.end(), [&](std::string_view name) { return tokens_.AtName(name); });
        if (is_end) break;
        ParseTag(block, offset);
      }
    }
    --nesting_;
    return block;
  }

  void ParseTag(Block& block, size_t offset) {
    if (tokens_.Peek().kind != TemplateTokenKind::kName) tokens_.FailExpected("a statement");
    const std::string name = tokens_.Take().text;
    if (name == "for") return ParseFor(Add(block, StatementKind::kFor, offset));
    if (name == "if") return ParseIf(Add(block, StatementKind::kIf, offset));
    if (name == "set") return ParseSet(Add(block, StatementKind::kSet, offset));
    if (name == "break" || name == "continue") {
      if (loop_depth_ == 0)
        throw TemplateFailure{ErrorKind::kInvalidArgument, offset,
                              fmt::format("{} outside of a loop", name)};
      Add(block, name == "break" ? StatementKind::kBreak : StatementKind::kContinue, offset);
      return ExpectBlockEnd();
    }
    // The end of a generation block, which marks what to train on, is without effect here.
    if (name == "generation" || name == "endgeneration") return ExpectBlockEnd();
    const bool is_misplaced = name.starts_with("end") || name == "else" || name == "elif";
    throw TemplateFailure{
        is_misplaced ? ErrorKind::kInvalidArgument : ErrorKind::kUnsupported, offset,
        fmt::format("the statement {{% {} %}}{}", name, is_misplaced ? " belongs to nothing" : "")};
  }

  void ParseFor(Statement& loop) {
    do loop.targets.push_back(tokens_.ExpectIdentifier());
    while (tokens_.TakeOperator(","));
    if (!tokens_.TakeName("in")) tokens_.FailExpected("in");
    loop.expression = expressions_.ParseWithoutConditional();
    if (tokens_.TakeName("if")) loop.condition = expressions_.Parse();
    if (tokens_.AtName("recursive"))
      throw TemplateFailure{ErrorKind::kUnsupported, tokens_.Peek().offset, "a recursive loop"};
    ExpectBlockEnd();
    ++loop_depth_;
    loop.body = ParseBlock({"else", "endfor"});
    --loop_depth_;
    if (tokens_.TakeName("else")) {
      ExpectBlockEnd();
      loop.else_body = ParseBlock({"endfor"});
    }
    tokens_.Take();
    ExpectBlockEnd();
  }

  void ParseIf(Statement& choice) {
    do {
      Branch branch;
      branch.condition = expressions_.ParseWithoutConditional();
      ExpectBlockEnd();
      branch.body = ParseBlock({"elif", "else", "endif"});
      choice.branches.push_back(std::move(branch));
    } while (tokens_.TakeName("elif"));
    if (tokens_.TakeName("else")) {
      ExpectBlockEnd();
      choice.else_body = ParseBlock({"endif"});
    }
    tokens_.Take();
    ExpectBlockEnd();
  }

  void ParseSet(Statement& set) {
    do set.targets.push_back(tokens_.ExpectIdentifier());
    while (tokens_.TakeOperator(","));
    if (set.targets.size() == 1 && tokens_.TakeOperator("."))
      set.attribute = tokens_.ExpectIdentifier();
    if (tokens_.TakeOperator("=")) {
      set.expression = expressions_.Parse();
      return ExpectBlockEnd();
    }
    if (set.targets.size() > 1 || !set.attribute.empty()) tokens_.FailExpected("=");
    if (tokens_.AtOperator("|"))
      throw TemplateFailure{ErrorKind::kUnsupported, tokens_.Peek().offset,
                            "a filter on a {% set %} block"};
    set.kind = StatementKind::kCapture;
    ExpectBlockEnd();
    const int loop_depth = std::exchange(loop_depth_, 0);
    set.body = ParseBlock({"endset"});
    loop_depth_ = loop_depth;
    tokens_.Take();
    ExpectBlockEnd();
  }

  Statement& Add(Block& block, StatementKind kind, size_t offset) {
    Statement& statement = block.emplace_back();
    statement.kind = kind;
    statement.offset = offset;
    return statement;
  }

  void ExpectEnd(TemplateTokenKind kind, std::string_view text) {
    if (tokens_.Peek().kind != kind) tokens_.FailExpected(text);
    tokens_.Take();
  }
  void ExpectBlockEnd() { ExpectEnd(TemplateTokenKind::kBlockEnd, "%}"); }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int nesting_ = 0;
  int loop_depth_ = 0;
};

}  // namespace

Block ParseTemplate(std::string_view source) { return StatementParser(source).Run(); }

}  // namespace flashinfer::engine
