// SPDX-License-Identifier: Apache-2.0
// The command line of flashinfer: reads the options and runs a command.
#include <cstdio>
#include <ranges>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "commands.h"
#include "flashinfer/version.h"
#include "help_examples.h"
#include "kernel_commands.h"
#include "option_checks.h"
#include "program.h"

namespace flashinfer::cli {
namespace {

/// Everything that the command line can say.
struct Options {
  GenerateOptions generate;
  ScoreOptions score;
  TokenizeOptions tokenize;
  ReplayOptions replay;
  ExplainOptions explain;
  std::vector<std::string> explain_words;
  ReplayCallsOptions replay_calls;
  KernelOptions kernels;
  ShowConfigOptions show_config;
};

void AddModel(CLI::App& command, ModelOptions& model) {
  command.add_option("--model", model.path, "GGUF file, or llama2.c checkpoint")
      ->required()
      ->type_name("FILE");
  command
      .add_option("--context", model.context, "Longest prompt and answer in tokens; the model's")
      ->check(CheckAtLeastOne);
  command.add_option("--kv-mib", model.kv_mib, "Size of the KV cache")->check(CheckAtLeastOne);
  command
      .add_option(
          "--device", model.device,
          "What runs the model: cpu, cuda:N, or auto, the first CUDA device if there is one")
      ->type_name("DEVICE")
      ->capture_default_str();
  command.add_option("--threads", model.threads, "Threads; all cores")->check(CLI::Range(1, 256));
}

void AddJson(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "Print one JSON object");
}

void AddGenerate(CLI::App& app, GenerateOptions& o) {
  CLI::App& command =
      *app.add_subcommand("generate", "Answer prompts; on a terminal without --prompt, chat");
  AddModel(command, o.model);
  // One value a flag: a list would swallow what follows.
  command.add_option("--prompt", o.prompts, "Text to answer; several run as one batch")
      ->type_name("TEXT")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  command.add_option("--system", o.system, "System message")->type_name("TEXT");
  command.add_flag("--raw", o.is_raw, "No chat template; special tokens in the text count as such");
  command.add_option("--max-tokens", o.max_tokens, "Longest answer in tokens")
      ->check(CheckAtLeastOne)
      ->capture_default_str();
  command.add_option("--temperature", o.sampling.temperature, "0: the likeliest token always")
      ->capture_default_str();
  command.add_option("--top-k", o.sampling.top_k, "Keep the likeliest tokens; 0: all")
      ->capture_default_str();
  command.add_option("--top-p", o.sampling.top_p, "Keep tokens up to this probability together")
      ->capture_default_str();
  command.add_option("--min-p", o.sampling.min_p, "Keep tokens of this share of the likeliest's")
      ->capture_default_str();
  command.add_option("--seed", o.sampling.seed, "Same seed, same answer, whatever else runs")
      ->capture_default_str();
  command.add_option("--stop", o.stops, "End the answer before this text; may be repeated")
      ->type_name("TEXT")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  command.add_flag("--ignore-eos", o.ignore_eos, "Go on after the model's end-of-answer token");
  AddJson(command, o.json);
}

void AddScore(CLI::App& app, ScoreOptions& o) {
  CLI::App& command = *app.add_subcommand("score", "Mean negative log-likelihood of a text");
  AddModel(command, o.model);
  command.add_option("textfile", o.text_file, "UTF-8 text")->required()->type_name("TEXTFILE");
  AddJson(command, o.json);
}

void AddTokenize(CLI::App& app, TokenizeOptions& o) {
  CLI::App& command = *app.add_subcommand("tokenize", "Token ids of a text");
  command.add_option("--model", o.model, "GGUF file, or llama2.c checkpoint")
      ->required()
      ->type_name("FILE");
  command.add_option("--text", o.text, "Text to tokenize")->required()->type_name("TEXT");
  command.add_flag("--special", o.parse_special, "Special tokens in the text count as such");
  AddJson(command, o.json);
}

void AddReplay(CLI::App& app, ReplayOptions& o) {
  CLI::App& command =
      *app.add_subcommand("replay-trace", "Serve the requests of a trace, at the times it gives");
  command.add_option("trace", o.trace, "Mooncake JSONL or Azure CSV; a synthetic one without it")
      ->type_name("TRACE");
  AddModel(command, o.model);
  command.add_option("--requests", o.num_requests, "Only the first N")
      ->check(CheckAtLeastOne)
      ->type_name("N");
  command.add_option("--length-scale", o.length_scale, "Multiplies lengths of prompts and answers")
      ->check(CheckMoreThanZero)
      ->capture_default_str();
  command.add_option("--time-scale", o.time_scale, "Multiplies arrival times; 0: all at once")
      ->check(CheckAtLeastZero)
      ->capture_default_str();
  command.add_option("--seed", o.seed, "Of the synthetic trace")->capture_default_str();
  AddJson(command, o.json);
}

void AddExplain(CLI::App& app, Options& o) {
  CLI::App& command =
      *app.add_subcommand("explain", "Which backend takes a problem, and why the others do not");
  auto* problem =
      command.add_option("problem", o.explain_words, "Such as: norm dtype=bf16 hidden_size=576");
  auto* matrix =
      command.add_flag("--matrix", o.explain.matrix, "The whole support matrix, as Markdown");
  command.add_flag("--json", o.explain.json, "Print JSON")->excludes(matrix);
  problem->excludes(matrix);
  command.callback([problem, matrix] {
    if (problem->empty() && matrix->empty()) throw CLI::RequiredError("problem or --matrix");
  });
}

void AddReplayCalls(CLI::App& app, ReplayCallsOptions& o) {
  CLI::App& command = *app.add_subcommand(
      "replay", "Make the calls dumped at FLASHINFER_LOGLEVEL=10 again, and compare their results");
  auto* folder =
      command.add_option("--dir", o.folder, "What FLASHINFER_DUMP_DIR named")->type_name("DIR");
  auto* list = command.add_flag("--list", o.list, "The operators that can be replayed");
  folder->excludes(list);
  command.require_option(1, 2);
  AddJson(command, o.json);
}

/// Commands of another program: all that follows goes there, --help too.
void AddCases(CLI::App& app, const char* name, const char* meaning) {
  app.add_subcommand(name, meaning)->prefix_command()->set_help_flag();
}

/// What is under "Examples" in each command's help.
void AddHelpExamples(CLI::App& app) {
  for (const HelpExamples& examples : kHelpExamples) {
    CLI::App* command = &app;
    std::string footer = "Examples:";
    for (auto word : std::views::split(examples.command, ' ')) {
      command = command->get_subcommand(std::string(word.begin(), word.end()));
    }
    for (auto line : std::views::split(examples.lines, '\n')) {
      footer += "\n  flashinfer " + std::string(line.begin(), line.end());
    }
    command->footer(footer);
  }
}

int Run(int argc, char** argv) {
  Options options;
  CLI::App app("LLM inference operators, and a small engine that serves models with them",
               "flashinfer");
  app.set_version_flag("--version", fmt::format("flashinfer {}", Version()));
  app.require_subcommand(1);
  AddGenerate(app, options.generate);
  AddScore(app, options.score);
  AddTokenize(app, options.tokenize);
  AddReplay(app, options.replay);
  AddExplain(app, options);
  AddReplayCalls(app, options.replay_calls);
  AddKernelCommands(app, options.kernels);
  AddCases(app, "check", "Run the operators' cases on every candidate, against float64 loops");
  AddCases(app, "bench", "Measure operators on the CPU or a CUDA device");
  AddJson(*app.add_subcommand("show-config", "Version, devices, compiler, cache, switches"),
          options.show_config.json);
  AddHelpExamples(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    const std::vector<std::string> rest = app.remaining(true);
    const CLI::App* last = &app;
    while (!last->get_subcommands().empty()) last = last->get_subcommands().front();
    if (last->get_require_subcommand_min() > 0 && !rest.empty()) {
      fmt::print(stderr, "flashinfer: '{}' is no command (see flashinfer --help)\n", rest.front());
      return kExitUsage;
    }
    fmt::print(stderr, "flashinfer: {} (see flashinfer --help)\n", error.what());
    return kExitUsage;
  }
  for (const char* name : {"check", "bench"}) {
    if (app.got_subcommand(name)) return RunCases(name, app.get_subcommand(name)->remaining());
  }
  if (app.got_subcommand("generate")) return Generate(options.generate);
  if (app.got_subcommand("score")) return Score(options.score);
  if (app.got_subcommand("tokenize")) return Tokenize(options.tokenize);
  if (app.got_subcommand("replay-trace")) return ReplayTrace(options.replay);
  if (app.got_subcommand("show-config")) return ShowConfig(options.show_config);
  if (app.got_subcommand("replay")) return ReplayCalls(options.replay_calls);
  if (int exit_code = 0; RunKernelCommand(app, options.kernels, exit_code)) return exit_code;
  options.explain.problem = fmt::format("{}", fmt::join(options.explain_words, " "));
  return Explain(options.explain);
}

}  // namespace
}  // namespace flashinfer::cli

int main(int argc, char** argv) {
  return flashinfer::cli::RunAsProgram(flashinfer::cli::Run, argc, argv);
}
