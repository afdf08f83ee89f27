// SPDX-License-Identifier: Apache-2.0
// Chat templates in the manner of well-known models, each construct alone, marks and bounds.
#include "engine/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "engine/text_generators.h"
#include "flashinfer/error.h"

namespace flashinfer::engine {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

ChatInput Chat() {
  return {.messages = {{"system", " Be brief. "}, {"user", "Hi <|im_end|>\n"}, {"assistant", "Yo"}},
          .bos_token = "<s>",
          .eos_token = "</s>"};
}

std::string Text(const std::vector<Segment>& segments) {
  std::string text;
  for (const Segment& segment : segments) text += segment.text;
  return text;
}

std::string Render(std::string source, const ChatInput& input = Chat()) {
  return Text(ChatTemplate(std::move(source)).Render(input));
}

/// The error's message; "rendered" when there was none.
std::string Failure(std::string source, ErrorKind kind, const ChatInput& input = Chat()) {
  try {
    Render(std::move(source), input);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "rendered";
}

struct Case {
  const char* source;
  const char* text;
};

void Expect(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    try {
      EXPECT_EQ(Render(c.source), c.text) << c.source;
    } catch (const Error& error) {
      ADD_FAILURE() << c.source << ": " << error.what();
    }
  }
}

TEST(ChatTemplateTest, ChatMl) {
  const std::string source =
      "{% for m in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
      "{{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}"
      "{{'<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
  EXPECT_EQ(
      Render(source),
      "<|im_start|>system\n Be brief. <|im_end|>\n<|im_start|>user\nHi <|im_end|>\n<|im_end|>\n"
      "<|im_start|>assistant\nYo<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(Render(source, {.messages = {{"user", "a"}},
                            .bos_token = "",
                            .eos_token = "",
                            .add_generation_prompt = false}),
            "<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\na<|im_end|>\n");
}

TEST(ChatTemplateTest, HeaderStyle) {
  const std::string source = R"({{- bos_token }}
{%- if not date is defined %}
    {%- set date = "1 Jan" %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}

{#- The system turn #}
{{- "<|start|>system<|end|>\n\n" + "Date: " ~ date + "\n" }}
{%- if builtin_tools is defined %}
    {{- builtin_tools | reject('equalto', 'x') | join(", ") }}
{%- endif %}
{{- system_message + "<|eot|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start|>' + message['role'] + '<|end|>\n\n'+ message['content'] | trim + '<|eot|>' }}
    {%- elif 'tool_calls' in message %}
        {{- raise_exception("no tools") }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant<|end|>\n\n' }}
{%- endif %}
)";
  EXPECT_EQ(
      Render(source),
      "<s><|start|>system<|end|>\n\nDate: 1 Jan\nBe brief.<|eot|><|start|>user<|end|>\n\n"
      "Hi <|im_end|><|eot|><|start|>assistant<|end|>\n\nYo<|eot|><|start|>assistant<|end|>\n\n");
}

TEST(ChatTemplateTest, ReasoningStyle) {
  const std::string source = R"({%- set ns = namespace(searching=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" and message.content is string and not(message.content.startswith('<t>') and message.content.endswith('</t>')) %}
        {%- set ns.searching = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- set thought = '' %}
    {%- if '</think>' in content %}
        {%- set thought = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
        {%- set content = content.split('</think>')[-1].lstrip('\n') %}
    {%- endif %}
    {%- if loop.index0 > ns.last and thought %}
        {{- '[' + thought.strip('\n') + ']' }}
    {%- endif %}
    {{- message.role + ':' + content + ';' }}
{%- endfor %}
{%- if enable_thinking is defined and enable_thinking is false %}
    {{- 'off' }}
{%- endif %})";
  const ChatInput input = {.messages = {{"assistant", "<think>x</think>a"},
                                        {"user", "q"},
                                        {"user", "<t>r</t>"},
                                        {"assistant", "<think>\nhm\n</think>\n\nb"}},
                           .bos_token = "",
                           .eos_token = ""};
  EXPECT_EQ(Render(source, input), "assistant:a;user:q;user:<t>r</t>;[hm]assistant:b;");
}

TEST(ChatTemplateTest, Whitespace) {
  Expect({
      {"a\n", "a"},
      {"a\n\n", "a\n"},
      {"a\r\nb", "a\nb"},
      {"{% if true %}\nx\n{% endif %}\ny", "x\ny"},
      {"  {% if true %}x{% endif %}", "x"},
      {"a  {% if true %}x{% endif %}", "a  x"},
      {"  {%+ if true %}x{% endif %}", "  x"},
      {"{% if true +%}\nx{% endif %}", "\nx"},
      {"a \n {%- if true -%} \n x {%- endif %}", "ax"},
      {"  {{ 'v' }}\n", "  v"},
      {"a {{- 'v' -}} b", "avb"},
      {"a\n  {# note #}\nb", "a\nb"},
      {"a {#- note -#} b", "ab"},
      {"{% set x = 1 %}  {% if true %}x{% endif %}", "  x"},
      {"{", "{"},
      {"{ {", "{ {"},
  });
}

TEST(ChatTemplateTest, Expressions) {
  Expect({
      {"{{ 1 + 2 * 3 - 9 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }}", "3 -4 2 -2"},
      {"{{ 'a' ~ 1 ~ none ~ true ~ missing }}", "a1NoneTrue"},
      {"{{ 'x' + 'y' ~ 'z' }}{{ 'ab' * 2 }}{{ 'a' 'b' }}", "xyzababab"},
      {"{{ 1 < 2 }} {{ 2 <= 1 }} {{ 'a' < 'b' }} {{ 1 == true }} {{ 1 != 1 }}",
       "True False True True False"},
      {"{{ not 1 == 2 and true or false }}", "True"},
      {"{{ 'a' or 'b' }}{{ '' or 'c' }}{{ 'd' and 'e' }}", "ace"},
      {"{{ 'x' if false else 'y' if false else 'z' }}{{ 'w' if false }}", "z"},
      {"{{ 'b' in 'abc' }} {{ 2 not in [1, 2] }} {{ 'k' in {'k': 1} }}", "True False True"},
      {"{{ [1, 2, 3][-1] }}{{ [1, 2][5] }}{{ {'a': {'b': 7}}.a['b'] }}", "37"},
      {"{{ 'h\u00E9llo'[1:3] }}{{ 'abc'[::-1] }}{{ 'abc'[-2:] }}{{ 'abcde'[3:0:-2] }}",
       "\u00E9lcbabcdb"},
      {"{{ ([1, 2] + [3])[1:] | join('-') }}", "2-3"},
      {"{{ '\\n\\t\\'\\\\\\x41\\u00e9\\q' }}", "\n\t'\\A\u00E9\\q"},
      {"{{ missing is defined }}{{ none is none }}{{ 1 is not string }}", "FalseTrueTrue"},
      {"{{ 'a' is string and {} is mapping and [] is iterable and 3 is odd }}", "True"},
      {"{{ 6 is divisibleby 3 }}{{ 6 is divisibleby(4) }}{{ 3 is eq 3 }}", "TrueFalseTrue"},
      {"{{ '}}' }}{{ '%}' }}{{ {'a': {'b': '}}'}}.a.b }}", "}}%}}}"},
  });
}

TEST(ChatTemplateTest, FiltersAndMethods) {
  Expect({
      {"{{ ' a '|trim }}{{ 'xay'|trim('xy') }}{{ '\u3000b\u00A0'.strip() }}", "aab"},
      {"{{ 'h\u00E9'|length }}{{ [1, 2]|length }}{{ {'a': 1}|count }}", "221"},
      {"{{ 'a\u00E9'|upper }}{{ 'A\u00C9'.lower() }}{{ 'ab cd'|title }}{{ 'aB'|capitalize }}",
       "A\u00C9a\u00E9Ab CdAb"},
      {"{{ {'a': [1, none, true, 'q\"\\n\\u0001\u00E9'], 'b': {}} | tojson }}",
       R"({"a": [1, null, true, "q\"\n\u0001é"], "b": {}})"},
      {"{{ 'a,b,,c'.split(',')|join('|') }}{{ ' a  b '.split()|join('|') }}", "a|b||ca|b"},
      {"{{ 'a-b-c'.split('-', 1)|last }}{{ 'abab'.replace('b', 'x') }}", "b-caxax"},
      {"{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith('ab') }}", "TrueFalse"},
      {"{{ missing|default('d') }}{{ ''|default('e', true) }}{{ '7'|int + 1 }}", "de8"},
      {"{{ {'a': 1}.get('a') }}{{ {'a': 1}.get('b', 2) }}{{ {'x': 1}.keys()|first }}", "12x"},
      {"{% for k, v in {'a': 1, 'b': 2}|items %}{{ k }}{{ v }}{% endfor %}", "a1b2"},
      {"{{ range(2, 7, 2)|join(',') }}{{ dict(a=3).a }}", "2,4,63"},
  });
}

TEST(ChatTemplateTest, StatementsAndScopes) {
  Expect({
      {"{% for i in [1, 2] %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}"
       "{{ loop.length }}{% endfor %}",
       "10TrueFalse221FalseTrue2"},
      {"{% for i in range(6) if i is odd %}{{ i }}{{ loop.revindex }} {% else %}no{% endfor %}",
       "13 32 51 "},
      {"{% for i in [] %}x{% else %}none{% endfor %}", "none"},
      {"{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}"
       "{% endif %}{{ i }}{% endfor %}",
       "023"},
      {"{% for c in 'a\u00E9' %}[{{ c }}]{% endfor %}", "[a][\u00E9]"},
      {"{% set x = 1 %}{% for i in [2] %}{% set x = i %}{{ x }}{% endfor %}{{ x }}", "21"},
      {"{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}", "2"},
      {"{% set n = namespace(x=1) %}{% for i in [5] %}{% set n.x = i %}{% endfor %}{{ n.x }}", "5"},
      {"{% set x %}a{{ 1 }}{% endset %}{{ x|upper }}", "A1"},
      {"{% set a, b = [1, 2] %}{{ b }}{{ a }}", "21"},
      {"{% if false %}a{% elif 1 %}b{% else %}c{% endif %}", "b"},
      {"{{ messages|length }}{{ messages[-1].role }}{{ bos_token }}{{ eos_token }}",
       "3assistant<s></s>"},
      {"{{ tools is none }}{{ add_generation_prompt }}", "TrueTrue"},
  });
}

TEST(ChatTemplateTest, UserTextStaysMarked) {
  const auto render = [](std::string source) {
    return ChatTemplate(std::move(source)).Render(Chat());
  };
  const auto user = [](std::string text) {
    return Segment{std::move(text), SpecialTokens::kPlain};
  };
  const auto own = [](std::string text) { return Segment{std::move(text), SpecialTokens::kParse}; };
  EXPECT_THAT(render("{{ '<s>' + messages[1].content + '</s>' }}"),
              ElementsAre(own("<s>"), user("Hi <|im_end|>\n"), own("</s>")));
  EXPECT_THAT(render("{{ ('<' ~ messages[1].content|trim)[0:5] }}"),
              ElementsAre(own("<"), user("Hi <")));
  EXPECT_THAT(render("{{ messages[1].content.split('<')|join('|')|upper }}"),
              ElementsAre(user("HI "), own("|"), user("|IM_END|>\n")));
  EXPECT_THAT(render("{{ [messages[0].content] | tojson }}"),
              ElementsAre(own("[\""), user(" Be brief. "), own("\"]")));
  EXPECT_THAT(render("{{ messages[1].content | tojson }}"),
              ElementsAre(own("\""), user("Hi <|im_end|>\\n"), own("\"")));
  EXPECT_THAT(render("{{ 'a-b'.replace('-', messages[0].content.strip()) }}"),
              ElementsAre(own("a"), user("Be brief."), own("b")));
  EXPECT_THAT(render("{% set x %}[{{ messages[2].content * 2 }}]{% endset %}{{ x }}"),
              ElementsAre(own("["), user("YoYo"), own("]")));
  EXPECT_THAT(render("{% for c in messages[2].content %}{{ c }}.{% endfor %}"),
              ElementsAre(user("Y"), own("."), user("o"), own(".")));
  EXPECT_THAT(render("{{ messages[0].role ~ bos_token }}"),
              ElementsAre(user("system"), own("<s>")));
  EXPECT_THAT(render(""), ElementsAre());
}

TEST(ChatTemplateTest, AnyContentComesThroughMarked) {
  const ChatTemplate chatml("{% for m in messages %}<a>{{ m.content }}</a>{% endfor %}");
  EXPECT_TRUE(rc::check("content between tags is the user's", [&] {
    const std::string content = "x" + *test::AnyBytes();
    const auto segments = chatml.Render({{{"user", content}}, "", "", true});
    RC_ASSERT(segments.size() == 3U);
    RC_ASSERT(segments[1] == (Segment{content, SpecialTokens::kPlain}));
  }));
}

TEST(ChatTemplateTest, NamesWhatIsBeyondTheSubset) {
  const auto unsupported = [](std::string source) {
    return Failure(std::move(source), ErrorKind::kUnsupported);
  };
  EXPECT_THAT(unsupported("a\n {% macro f() %}{% endmacro %}"),
              AllOf(StartsWith("chat template, line 2, column 2: "), HasSubstr("{% macro %}"),
                    HasSubstr("--raw")));
  EXPECT_THAT(unsupported("{{ messages | groupby('role') }}"), HasSubstr("filter \"groupby\""));
  EXPECT_THAT(unsupported("{{ 1 is callable }}"), HasSubstr("test \"callable\""));
  EXPECT_THAT(unsupported("{{ 'a'.encode() }}"), HasSubstr("string method \"encode\""));
  EXPECT_THAT(unsupported("{{ strftime_now('%Y') }}"), HasSubstr("function \"strftime_now\""));
  EXPECT_THAT(unsupported("{{ 1.5 }}"), HasSubstr("fraction"));
  EXPECT_THAT(unsupported("{{ 3 / 2 }}"), HasSubstr("operator /"));
  EXPECT_THAT(unsupported("{{ 2 ** 2 }}"), HasSubstr("operator **"));
  EXPECT_THAT(unsupported("{{ (1, 2) }}"), HasSubstr("tuple"));
  EXPECT_THAT(unsupported("{{ 1 < 2 < 3 }}"), HasSubstr("chain of comparisons"));
  EXPECT_THAT(unsupported("{{ messages }}"), HasSubstr("text of a list"));
  EXPECT_THAT(unsupported("{{ 'a' | tojson(indent=2) }}"), HasSubstr("argument \"indent\""));
  EXPECT_THAT(unsupported("{% set n = namespace() %}{% set n.n = n %}"), HasSubstr("namespace"));
}

TEST(ChatTemplateTest, WhatIsNotReachedIsNotRefused) {
  EXPECT_EQ(Render("{% if false %}{{ messages | groupby('role') }}{% endif %}a"), "a");
}

TEST(ChatTemplateTest, RefusesWhatIsWrong) {
  const auto invalid = [](std::string source) {
    return Failure(std::move(source), ErrorKind::kInvalidArgument);
  };
  EXPECT_THAT(invalid("{{ raise_exception('Only ' + messages[1].role) }}"),
              HasSubstr("the template refuses: Only user"));
  EXPECT_THAT(invalid("{{ raise_exception('two\\nlines') }}"), HasSubstr("two lines"));
  EXPECT_THAT(invalid("{% if true %}"), HasSubstr("{% endif %}"));
  EXPECT_THAT(invalid("{% endfor %}"), HasSubstr("belongs to nothing"));
  EXPECT_THAT(invalid("{{ 'abc }}"), HasSubstr("no closing quote"));
  EXPECT_THAT(invalid("{{ 1 + }}"), HasSubstr("an expression is expected"));
  EXPECT_THAT(invalid("{{ (1 }}"), HasSubstr("closes nothing"));
  EXPECT_THAT(invalid("{% if"), HasSubstr("no %}"));
  EXPECT_THAT(invalid("{{ 1"), HasSubstr("no }}"));
  EXPECT_THAT(invalid("{# x"), HasSubstr("no #}"));
  EXPECT_THAT(invalid("{{ 1 + 'a' }}"), HasSubstr("+ of integer and string"));
  EXPECT_THAT(invalid("{{ missing.name }}"), HasSubstr("\"name\" is asked of something undefined"));
  EXPECT_THAT(invalid("{{ 1 // 0 }}"), HasSubstr("division by 0"));
  EXPECT_THAT(invalid("{{ [1][::0] }}"), HasSubstr("step"));
  EXPECT_THAT(invalid("{{ 'a'.split('') }}"), HasSubstr("separator"));
  EXPECT_THAT(invalid("{% break %}"), HasSubstr("outside of a loop"));
  EXPECT_THAT(invalid("{% for i in 3 %}{% endfor %}"), HasSubstr("integer has no items"));
  EXPECT_THAT(invalid("{{ 999999999999999999 * 999999999999999999 }}"), HasSubstr("too large"));
  EXPECT_THAT(invalid("{{ ? }}"), HasSubstr("unexpected byte 0x3f"));
}

std::string Times(int count, std::string_view text) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

TEST(ChatTemplateTest, HostileTemplatesAreBounded) {
  const auto too_deep = [](std::string source) {
    EXPECT_THAT(Failure(std::move(source), ErrorKind::kUnsupported), HasSubstr("deeper than"));
  };
  too_deep("{{ " + Times(100000, "(") + "1" + Times(100000, ")") + " }}");
  too_deep("{{ " + Times(100000, "not ") + "1 }}");
  too_deep("{{ " + Times(100000, "-") + "1 }}");
  too_deep("{{ 1" + Times(100000, " + 1") + " }}");
  too_deep("{{ 'a'" + Times(100000, "|trim") + " }}");
  too_deep("{{ 1" + Times(50000, " if 1 else 1") + " }}");
  too_deep(Times(1000, "{% if 1 %}") + Times(1000, "{% endif %}"));
  too_deep(
      "{% set n = namespace(x=[]) %}{% for i in range(99) %}{% set n.x = [n.x] %}{% endfor %}");

  const auto too_much = [](std::string source) {
    EXPECT_THAT(Failure(std::move(source), ErrorKind::kInvalidArgument), HasSubstr("too m"));
  };
  const std::string loop = "{% for i in range(1000) %}";
  too_much(loop + loop + loop + "x" + Times(3, "{% endfor %}"));
  too_much("{% set n = namespace(x='a') %}" + loop + "{% set n.x = n.x ~ n.x %}{% endfor %}");
  too_much("{{ 'abcdefgh' * 999999999 }}");
  too_much("{{ '' * 999999999999 }}");
  too_much("{{ range(999999999999)|length }}");
  // 2^30 leaves by sharing.
  too_much(
      "{% set n = namespace(x=['abc']) %}{% for i in range(30) %}"
      "{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x | tojson }}");
  too_much(
      "{% set n = namespace(x=['abc'], y=['abc']) %}{% for i in range(30) %}"
      "{% set n.x = [n.x, n.x] %}{% set n.y = [n.y, n.y] %}{% endfor %}{{ n.x == n.y }}");
  EXPECT_THAT(Failure(std::string(2 << 20, 'x'), ErrorKind::kUnsupported), HasSubstr("bytes"));
}

TEST(ChatTemplateTest, LongContentIsNoHostileTemplate) {
  const ChatTemplate chat("{% for m in messages %}{{ m.content|trim ~ '\\n' }}{% endfor %}");
  const std::string content(8 << 20, 'x');
  EXPECT_EQ(chat.Render({{{"user", content}}, "", "", true})[0].text.size(), content.size());
}

}  // namespace
}  // namespace flashinfer::engine
