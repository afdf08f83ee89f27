// SPDX-License-Identifier: Apache-2.0
// What the command line says, and the commands that do it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/sampler.h"
#include "exit_codes.h"

namespace flashinfer::cli {

struct ModelOptions {
  std::string path;
  int64_t context = 0;          ///< 0: the model's
  int64_t kv_mib = 0;           ///< 0: the engine's choice
  int threads = 0;              ///< 0: all cores
  std::string device = "auto";  ///< `auto`, `cpu` or `cuda:0`: what runs the model
};

struct GenerateOptions {
  ModelOptions model;
  std::vector<std::string> prompts;
  std::string system;
  bool is_raw = false;
  int64_t max_tokens = 256;
  engine::SamplingParams sampling;
  std::vector<std::string> stops;
  bool ignore_eos = false;
  bool json = false;
};

struct ScoreOptions {
  ModelOptions model;
  std::string text_file;
  bool json = false;
};

struct TokenizeOptions {
  std::string model;
  std::string text;
  bool parse_special = false;
  bool json = false;
};

struct ReplayOptions {
  ModelOptions model;
  std::string trace;         ///< empty: a synthetic one
  int64_t num_requests = 0;  ///< 0: all of a file, 100 of a synthetic trace
  double length_scale = 1;
  double time_scale = 1;
  uint64_t seed = 0;  ///< of the synthetic trace
  bool json = false;
};

struct ExplainOptions {
  std::string problem;
  bool matrix = false;
  bool json = false;
};

struct ReplayCallsOptions {
  std::string folder;
  bool list = false;  ///< the operators that can be replayed
  bool json = false;
};

struct ShowConfigOptions {
  bool json = false;
};

/// Each returns the exit code of a success, kExitInterrupted after Ctrl-C, and throws Error.
int Generate(const GenerateOptions& options);
int Score(const ScoreOptions& options);
int Tokenize(const TokenizeOptions& options);
int ReplayTrace(const ReplayOptions& options);
int Explain(const ExplainOptions& options);
int ReplayCalls(const ReplayCallsOptions& options);
int ShowConfig(const ShowConfigOptions& options);
/// Hands `check` or `bench` with all that follows over to the program flashinfer-cases beside this
/// one, and returns only when that is not there.
int RunCases(const std::string& command, const std::vector<std::string>& words);

}  // namespace flashinfer::cli
