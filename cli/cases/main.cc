// SPDX-License-Identifier: Apache-2.0
// The command line of flashinfer-cases, which `flashinfer check` and `flashinfer bench` run.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "cases_commands.h"
#include "exit_codes.h"
#include "flashinfer/error.h"
#include "option_checks.h"
#include "program.h"

namespace flashinfer::cli {
namespace {

void AddCheck(CLI::App& app, CheckOptions& o) {
  CLI::App& command = *app.add_subcommand(
      "check", "Run the operators' cases on every candidate, against float64 loops");
  command.add_option("words", o.words, "Operators, and field=value words of cases; all")
      ->type_name("OP|FIELD=VALUE");
  command.add_option("--device", o.devices, "cpu or cuda:N; may be repeated; those that are there")
      ->type_name("DEVICE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_option("--backend", o.backend, "Only these candidates, such as cpu.avx2 or cuda")
      ->type_name("NAME")
      ->capture_default_str();
  command.add_option("--max-cases", o.max_cases, "Cases of an operator, spread over its list; all")
      ->check(CheckAtLeastOne);
  command.add_flag("--list", o.list, "Print the operators and stop");
  command.add_flag("--json", o.json, "Print JSON");
  command.footer(
      "Ends with 1 when a case failed. Examples:\n"
      "  flashinfer check norm rope\n"
      "  flashinfer check batch_decode --device cuda:0 --max-cases 20\n"
      "  flashinfer check 'norm kind=rms dtype=bf16 hidden_size=111' --backend cpu.avx2");
}

void AddBench(CLI::App& app, BenchOptions& o, std::string& backend) {
  CLI::App& command =
      *app.add_subcommand("bench", "Measure operators: time, share of the machine's floor, peer");
  command.add_option("words", o.words, "Operators, and field=value words of cases; all")
      ->type_name("OP|FIELD=VALUE");
  command.add_option("--case", o.harness.single_case, "One case, instead of an operator's list")
      ->type_name("WORDS");
  command
      .add_option("--device", o.device, "cpu, or cuda:N: replays between events, a cold L2 cache")
      ->type_name("DEVICE")
      ->capture_default_str();
  command.add_option("--backend", backend, "Only these candidates, such as cpu.avx2")
      ->type_name("NAME");
  command.add_option("--seconds", o.harness.seconds, "Time to sample each case")
      ->check(CheckAtLeastZero)
      ->capture_default_str();
  command.add_option("--threads", o.threads, "Threads; all cores")->check(CLI::Range(1, 256));
  command.add_option("--peers", o.harness.peers, "JSON lines of a peer: op, case, peer, peer_us")
      ->type_name("FILE");
  command.add_option("--output", o.harness.output, "Append JSON lines to it")->type_name("FILE");
  command.add_option("--commit", o.harness.commit, "Commit to record; that of the folder");
  command.add_flag("--list", o.list, "Print the cases and stop");
  command.add_flag("--print-device", o.print_device, "Print the machine's name and stop");
  command.add_flag("--json", o.harness.json, "Print JSON lines");
  command.footer(
      "Examples:\n"
      "  flashinfer bench norm num_rows=512\n"
      "  flashinfer bench batch_decode --device cuda:0 --output gpu.jsonl\n"
      "  flashinfer bench gemm --case 'dtype_a=bf16 dtype_b=bf16 dtype_out=bf16 m=64 n=512 k=512'");
}

/// Sets the library's own switch, which it read when it was loaded: by starting over.
void PreferBackend(const std::string& backend, char** argv) {
  constexpr const char* kSwitch = "FLASHINFER_BACKEND";
  const char* current = std::getenv(kSwitch);
  if (current != nullptr && backend == current) return;
  setenv(kSwitch, backend.c_str(), 1);
  execv("/proc/self/exe", argv);
  throw Error(ErrorKind::kIo, "/proc/self/exe: cannot be started again");
}

int Run(int argc, char** argv) {
  CheckOptions check;
  BenchOptions bench;
  std::string backend;
  CLI::App app("The operators' shared cases", "flashinfer");
  app.require_subcommand(1);
  AddCheck(app, check);
  AddBench(app, bench, backend);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "flashinfer: {} (see flashinfer {} --help)\n", error.what(),
               argc > 1 ? argv[1] : "");
    return kExitUsage;
  }
  if (app.got_subcommand("check")) return Check(check);
  if (!backend.empty()) PreferBackend(backend, argv);
  return Bench(bench);
}

}  // namespace
}  // namespace flashinfer::cli

int main(int argc, char** argv) {
  return flashinfer::cli::RunAsProgram(flashinfer::cli::Run, argc, argv);
}
