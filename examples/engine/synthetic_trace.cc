// SPDX-License-Identifier: Apache-2.0
// Made-up traces, and their writing in Mooncake's format.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <ostream>
#include <random>

#include "engine/read_error.h"
#include "engine/trace.h"

namespace flashinfer::engine {
namespace {

/// Draws by formulas written here: those of the standard library differ between its makers.
class Draws {
 public:
  explicit Draws(uint64_t seed) : engine_(seed) {}

  /// In (0, 1].
  double Uniform() { return (static_cast<double>(engine_() >> 11) + 1) / 9007199254740992.0; }
  double Exponential(double rate) { return -std::log(Uniform()) / rate; }
  double Normal() {
    const double radius = std::sqrt(-2 * std::log(Uniform()));
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }
  int64_t LogNormal(double median, double sigma, int64_t max) {
    const double value = std::round(median * std::exp(sigma * Normal()));
    return static_cast<int64_t>(std::clamp(value, 1.0, static_cast<double>(max)));
  }
  /// 0 .. size - 1, each weighing 1 / (1 + i).
  int64_t Zipf(int64_t size) {
    double total = 0;
    for (int64_t i = 0; i < size; ++i) total += 1 / static_cast<double>(1 + i);
    double left = Uniform() * total;
    int64_t i = 0;
    while (i + 1 < size && (left -= 1 / static_cast<double>(1 + i)) > 0) ++i;
    return i;
  }

 private:
  std::mt19937_64 engine_;
};

void Check(std::string_view option, double value, double least, double most) {
  if (value >= least && value <= most) return;
  Fail(ErrorKind::kInvalidArgument, "{} is {}, {} to {} is accepted", option, value, least, most);
}

void CheckOptions(const SyntheticTraceOptions& o) {
  Check("num_requests", static_cast<double>(o.num_requests), 0, 1e7);
  Check("requests_per_s", o.requests_per_s, 1e-3, 1e6);
  Check("median_input_length", o.median_input_length, 1, 1e7);
  Check("sigma_input_length", o.sigma_input_length, 0, 10);
  Check("median_output_length", o.median_output_length, 1, 1e7);
  Check("sigma_output_length", o.sigma_output_length, 0, 10);
  Check("max_length", static_cast<double>(o.max_length), 1, 1e7);
  Check("num_shared_prefixes", static_cast<double>(o.num_shared_prefixes), 0, 1000);
  Check("max_shared_blocks", static_cast<double>(o.max_shared_blocks), 1, 1000);
  Check("shared_share", o.shared_share, 0, 1);
}

}  // namespace

std::vector<TraceRequest> MakeSyntheticTrace(const SyntheticTraceOptions& options) {
  CheckOptions(options);
  Draws draws(options.seed);
  uint64_t next_hash = 0;
  std::vector<std::vector<uint64_t>> prefixes(static_cast<size_t>(options.num_shared_prefixes));
  for (auto& prefix : prefixes) {
    const double share = draws.Uniform() * static_cast<double>(options.max_shared_blocks);
    prefix.resize(static_cast<size_t>(std::ceil(share)));
    for (uint64_t& hash : prefix) hash = next_hash++;
  }
  std::vector<TraceRequest> requests(static_cast<size_t>(options.num_requests));
  double arrival_s = 0;
  for (TraceRequest& request : requests) {
    request.arrival_s = arrival_s;
    arrival_s += draws.Exponential(options.requests_per_s);
    request.input_length = draws.LogNormal(options.median_input_length, options.sigma_input_length,
                                           options.max_length);
    request.output_length = draws.LogNormal(options.median_output_length,
                                            options.sigma_output_length, options.max_length);
    request.block_size = kMooncakeBlockSize;
    const int64_t num_blocks = (request.input_length - 1) / kMooncakeBlockSize + 1;
    if (!prefixes.empty() && draws.Uniform() <= options.shared_share) {
      request.prefix_hashes =
          prefixes[static_cast<size_t>(draws.Zipf(options.num_shared_prefixes))];
    }
    // A block that the request does not fill is its own: what follows in the others is not in it.
    const size_t num_full_blocks = static_cast<size_t>(request.input_length / kMooncakeBlockSize);
    if (request.prefix_hashes.size() > num_full_blocks) {
      request.prefix_hashes.resize(num_full_blocks);
    }
    while (request.prefix_hashes.size() < static_cast<size_t>(num_blocks)) {
      request.prefix_hashes.push_back(next_hash++);
    }
  }
  return requests;
}

void WriteMooncakeTrace(std::ostream& out, std::span<const TraceRequest> requests) {
  for (const TraceRequest& request : requests) {
    if (!request.prefix_hashes.empty() && request.block_size != kMooncakeBlockSize) {
      Fail(ErrorKind::kInvalidArgument, "block_size is {}, Mooncake's format has {}",
           request.block_size, kMooncakeBlockSize);
    }
    out << fmt::format(
        "{{\"timestamp\": {:.0f}, \"input_length\": {}, \"output_length\": {}, \"hash_ids\": "
        "[{}]}}\n",
        request.arrival_s * 1000, request.input_length, request.output_length,
        fmt::join(request.prefix_hashes, ", "));
  }
}

}  // namespace flashinfer::engine
