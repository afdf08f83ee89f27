// SPDX-License-Identifier: Apache-2.0
// Options, sampling, table and JSON lines of the benchmarks.
#include "harness.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "flashinfer/cpu.h"

namespace flashinfer::bench {
namespace {

using Clock = std::chrono::steady_clock;

double MicrosecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double TimeCalls(const std::function<void(int64_t)>& run, int64_t first, int64_t count) {
  const Clock::time_point start = Clock::now();
  for (int64_t i = first; i < first + count; ++i) run(i);
  return MicrosecondsSince(start);
}

/// First line that a command prints, empty when it fails.
std::string FirstLine(const char* command) {
  FILE* pipe = popen(command, "r");
  if (pipe == nullptr) return "";
  char line[256] = "";
  const bool any = fgets(line, sizeof line, pipe) != nullptr;
  const bool ok = pclose(pipe) == 0 && any;
  std::string text = ok ? line : "";
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::string Today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

}  // namespace

int64_t NumColdCopies(double bytes) {
  constexpr double kColdBytes = 256e6;  // eight times a 32 MB last-level cache
  return std::clamp<int64_t>(static_cast<int64_t>(kColdBytes / std::max(bytes, 1.0)), 1, 1024);
}

double MedianUs(const std::function<void(int64_t)>& run, double seconds) {
  constexpr double kSampleUs = 1000;
  run(0);
  int64_t next = 1;
  int64_t calls = 1;  // per sample
  double sample_us = TimeCalls(run, next, calls);
  next += calls;
  const Clock::time_point start = Clock::now();
  // Warm-up: clocks rise and pages are touched while the calls per sample are found.
  while (sample_us < kSampleUs || MicrosecondsSince(start) < seconds * 0.2e6) {
    if (sample_us < kSampleUs) calls *= 2;
    sample_us = TimeCalls(run, next, calls);
    next += calls;
  }
  std::vector<double> samples;
  const Clock::time_point begin = Clock::now();
  while (samples.size() < 5 || MicrosecondsSince(begin) < seconds * 1e6) {
    samples.push_back(TimeCalls(run, next, calls) / static_cast<double>(calls));
    next += calls;
  }
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

double Floors::Us(const Case& c) {
  // As many bytes as are written come in at the rate of a copy, the others at that of reads.
  const double copied = std::min(c.bytes, 2 * c.written);
  const double copy_us = copied > 0 ? copied / CopyGbPerS() * 1e-3 : 0;
  const double read_us = c.bytes > copied ? (c.bytes - copied) / ReadGbPerS() * 1e-3 : 0;
  const double memory_us = copy_us + read_us;
  const double math_us = c.flops > 0 ? c.flops / GflopPerS(c.math) * 1e-3 : 0;
  return std::max(memory_us, math_us);
}

std::string DeviceName() {
  std::map<std::string, std::string> fields;
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line) && !line.empty();) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || colon + 2 > line.size()) continue;
    fields[line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1)] = line.substr(colon + 2);
  }
  return fmt::format("{}, family {} model {}, {} threads", fields["model name"],
                     fields["cpu family"], fields["model"], NumThreads());
}

Harness::Harness(std::string_view op, int argc, char** argv) : op_(op) {
  CLI::App app(
      fmt::format("Benchmark of {}: median time, share of the machine's floor, peer.", op));
  std::string peers;
  int threads = 0;
  bool print_device = false;
  app.add_flag("--device", print_device, "Print the machine's name and end");
  app.add_flag("--list", list_, "Print the cases and end");
  app.add_option("--filter", filter_, "Only cases that contain this text");
  app.add_option("--case", single_case_, "One case, as field=value words, instead of the list");
  app.add_option("--seconds", seconds_, "Time to sample each case")->capture_default_str();
  app.add_option("--threads", threads, "Threads (default: all cores)")->check(CLI::Range(1, 256));
  app.add_option("--peers", peers, "JSON lines with a peer's times: op, case, peer, peer_us");
  app.add_option("--output", output_, "Append JSON lines to this file");
  app.add_option("--commit", commit_, "Commit to record (default: that of the folder)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    std::exit(app.exit(e) == 0 ? 0 : 2);
  }
  if (threads > 0) SetNumThreads(threads);
  if (print_device) {
    fmt::print("{}\n", DeviceName());
    std::exit(0);
  }
  if (!peers.empty()) ReadPeers(peers);
  if (!output_.empty() && commit_.empty()) {
    commit_ = FirstLine("git describe --always --dirty --exclude='*' 2>/dev/null");
  }
}

void Harness::ReadPeers(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto row = nlohmann::json::parse(line);
    if (row.at("op") != op_) continue;
    peers_[row.at("case")] = {row.at("peer"), row.at("peer_us")};
  }
}

std::vector<std::string> Harness::Cases(const std::vector<std::string>& standard) const {
  std::vector<std::string> cases;
  if (!single_case_.empty()) cases.push_back(single_case_);
  for (const std::string& text : standard) {
    if (single_case_.empty() && text.find(filter_) != std::string::npos) cases.push_back(text);
  }
  if (list_) {
    for (const std::string& text : cases) fmt::print("{} {}\n", op_, text);
    std::exit(0);
  }
  return cases;
}

double Harness::Measure(const Case& c, const std::function<void(int64_t)>& run) {
  floors_.ForgetBandwidths();
  floors_.Us(c);  // measures what it needs
  const double us = MedianUs(run, seconds_);
  const auto found = peers_.find(c.text);
  const PeerTime* peer = found == peers_.end() ? nullptr : &found->second;
  Print(c, us, peer);
  if (!output_.empty()) Write(c, us, peer);
  return us;
}

void Harness::Print(const Case& c, double us, const PeerTime* peer) {
  if (!header_printed_) {
    fmt::print("{} on {}: reads {:.1f} GB/s, copies {:.1f} GB/s\n", op_, DeviceName(),
               floors_.ReadGbPerS(), floors_.CopyGbPerS());
    fmt::print("{:>10} {:>8} {:>9} {:>6} {:>22}  {}\n", "µs", "GB/s", "GFLOP/s", "floor", "peer",
               "case");
    header_printed_ = true;
  }
  const std::string against =
      peer == nullptr ? "-" : fmt::format("{} {:.2f}x", peer->name, peer->us / us);
  fmt::print("{:>9.2f} {:>8.1f} {:>9.1f} {:>5.0f}% {:>22}  {} [{}]\n", us, c.bytes / us * 1e-3,
             c.flops / us * 1e-3, 100 * floors_.Us(c) / us, against, c.text, c.backend);
  std::fflush(stdout);
}

void Harness::Write(const Case& c, double us, const PeerTime* peer) {
  nlohmann::ordered_json row{{"op", op_}, {"case", c.text}, {"backend", c.backend}, {"us", us}};
  if (c.bytes > 0) row["gb_per_s"] = c.bytes / us * 1e-3;
  if (c.flops > 0) row["tflop_per_s"] = c.flops / us * 1e-6;
  row["floor_share"] = floors_.Us(c) / us;
  if (peer != nullptr) {
    row["peer"] = peer->name;
    row["peer_us"] = peer->us;
    row["ratio"] = peer->us / us;
  }
  row["device"] = DeviceName();
  row["commit"] = commit_;
  row["date"] = Today();
  std::ofstream file(output_, std::ios::app);
  file << row.dump() << "\n";
  if (!file.flush()) {
    fmt::print(stderr, "{}: cannot write\n", output_);
    std::exit(6);
  }
}

}  // namespace flashinfer::bench
