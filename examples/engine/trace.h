// SPDX-License-Identifier: Apache-2.0
// Traces of requests to a serving engine: readers, a generator and a writer.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flashinfer::engine {

struct TraceRequest {
  double arrival_s = 0;       ///< since the trace began, never less than the request before it
  int64_t input_length = 0;   ///< prompt tokens, at least 1
  int64_t output_length = 0;  ///< generated tokens
  /// One per block of `block_size` prompt tokens, the last maybe partial: equal ids in equal places
  /// mean equal prompts up to the end of that block. Empty: nothing is known of the content.
  std::vector<uint64_t> prefix_hashes;
  int64_t block_size = 0;  ///< tokens; 0 where `prefix_hashes` is empty

  friend bool operator==(const TraceRequest&, const TraceRequest&) = default;
};

/// Prompt tokens that one hash of a Mooncake trace stands for.
inline constexpr int64_t kMooncakeBlockSize = 512;

/// Reads one request after the other; the format shows in the first line:
///
/// - Mooncake: a JSON object a line with `timestamp` (ms), `input_length`, `output_length` and,
///   maybe, `hash_ids`.
/// - Azure: CSV with the header `TIMESTAMP,ContextTokens,GeneratedTokens`.
///
/// Work and memory are bounded by a line's length, at most 1 MiB.
class TraceReader {
 public:
  /// Throws kIo when the file cannot be read.
  static TraceReader Open(const std::string& path);
  /// `name` is what messages call the text.
  TraceReader(std::string name, std::unique_ptr<std::istream> text);
  TraceReader(TraceReader&&) noexcept;
  TraceReader& operator=(TraceReader&&) noexcept;
  ~TraceReader();

  /// The next request, nullopt at the end. Throws kInvalidArgument, naming file, line and field,
  /// when it is malformed, or arrives before the one before it.
  std::optional<TraceRequest> Next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A made-up service: arrivals are a Poisson process, lengths are log-normal, and a part of the
/// requests begin with one of a few prompts that they share, the first of which is the most
/// popular (Zipf).
struct SyntheticTraceOptions {
  int64_t num_requests = 100;
  double requests_per_s = 2;
  double median_input_length = 1024;
  double sigma_input_length = 0.8;  ///< of the logarithm
  double median_output_length = 128;
  double sigma_output_length = 0.6;
  int64_t max_length = 8192;  ///< of input and of output
  int64_t num_shared_prefixes = 4;
  int64_t max_shared_blocks = 3;  ///< a shared prefix is 1 to this many blocks
  double shared_share = 0.5;      ///< share of the requests that begin with a shared prefix
  uint64_t seed = 0;
};

/// The same options give the same trace. Throws kInvalidArgument that names the option.
std::vector<TraceRequest> MakeSyntheticTrace(const SyntheticTraceOptions& options);

/// In Mooncake's format, arrivals rounded to milliseconds. A request's blocks must be of
/// kMooncakeBlockSize tokens.
void WriteMooncakeTrace(std::ostream& out, std::span<const TraceRequest> requests);

}  // namespace flashinfer::engine
