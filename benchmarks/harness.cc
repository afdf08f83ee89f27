// SPDX-License-Identifier: Apache-2.0
// Sampling, table and JSON lines of the benchmarks.
#include "harness.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cuda/device.h"
#include "flashinfer/cpu.h"
#include "flashinfer/error.h"

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

int64_t Harness::NumColdCopies(double bytes) const {
  if (timer_ != nullptr) return 1;
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

Harness::Harness(std::string_view op, const HarnessOptions& options) : op_(op), options_(options) {
  if (device().type == DeviceType::kCuda) timer_ = std::make_unique<GpuTimer>(device());
  Begin();
  if (!options.peers.empty()) ReadPeers(options.peers);
  if ((options.json || !options.output.empty()) && options.commit.empty()) {
    options_.commit = FirstLine("git describe --always --dirty --exclude='*' 2>/dev/null");
  }
}

Stream Harness::stream() const { return timer_ == nullptr ? Stream() : timer_->stream(); }

std::vector<TensorView> Harness::On(const std::vector<test::HostTensor>& tensors) {
  std::vector<TensorView> views;
  views.reserve(tensors.size());
  for (const test::HostTensor& tensor : tensors) views.push_back((*on_)(tensor));
  return views;
}

std::string Harness::MachineName() const {
  return timer_ == nullptr ? DeviceName() : cuda::Properties(device()).name;
}

double Harness::FloorUs(const Case& c) {
  return timer_ == nullptr ? floors_.Us(c) : c.bytes / timer_->MemoryGbPerS() * 1e-3;
}

void Harness::ReadPeers(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto row = nlohmann::json::parse(line);
    if (row.at("op") != op_) continue;
    peers_[row.at("case")].push_back({row.at("peer"), row.at("peer_us")});
  }
}

std::vector<std::string> Harness::Cases(const std::vector<std::string>& standard) const {
  if (!options_.single_case.empty()) return {options_.single_case};
  std::vector<std::string> cases = standard;
  std::erase_if(cases, [&](const std::string& text) {
    return std::any_of(
        options_.filter.begin(), options_.filter.end(),
        [&](const std::string& word) { return text.find(word) == std::string::npos; });
  });
  return cases;
}

double Harness::Measure(const Case& c, const std::function<void(int64_t)>& run) {
  floors_.ForgetBandwidths();
  FloorUs(c);  // measures what it needs
  const double us =
      timer_ == nullptr
          ? MedianUs(run, options_.seconds)
          : timer_->MedianUs([&](Stream) { run(0); },
                             static_cast<int>(std::clamp(60 * options_.seconds, 3.0, 1000.0)));
  if (timer_ == nullptr) floors_.AverageBandwidths();
  std::vector<const PeerTime*> peers;
  for (const PeerTime& peer : peers_[c.text]) peers.push_back(&peer);
  if (peers.empty()) peers.push_back(nullptr);
  std::vector<std::string> lines;
  for (const PeerTime* peer : peers) {
    if (options_.json || !options_.output.empty()) lines.push_back(JsonLine(c, us, peer));
    if (!options_.json) Print(c, us, peer);
  }
  Write(lines);
  return us;
}

void Harness::Write(const std::vector<std::string>& lines) {
  if (options_.json) fmt::print("{}\n", fmt::join(lines, "\n"));
  std::fflush(stdout);
  if (options_.output.empty()) return;
  std::ofstream file(options_.output, std::ios::app);
  file << fmt::format("{}\n", fmt::join(lines, "\n"));
  if (!file.flush()) throw Error(ErrorKind::kIo, options_.output + ": cannot be written");
}

void Harness::Print(const Case& c, double us, const PeerTime* peer) {
  if (!header_printed_) {
    if (timer_ == nullptr) {
      fmt::print("{} on {}: reads {:.1f} GB/s, copies {:.1f} GB/s\n", op_, MachineName(),
                 floors_.ReadGbPerS(), floors_.CopyGbPerS());
    } else {
      fmt::print("{} on {}: memory {:.1f} GB/s\n", op_, MachineName(), timer_->MemoryGbPerS());
    }
    fmt::print("{:>10} {:>8} {:>9} {:>6} {:>22}  {}\n", "µs", "GB/s", "GFLOP/s", "floor", "peer",
               "case");
    header_printed_ = true;
  }
  const double floor_us = FloorUs(c);
  const std::string share = floor_us > 0 ? fmt::format("{:.0f}%", 100 * floor_us / us) : "-";
  const std::string against =
      peer == nullptr ? "-" : fmt::format("{} {:.2f}x", peer->name, peer->us / us);
  fmt::print("{:>9.2f} {:>8.1f} {:>9.1f} {:>6} {:>22}  {} [{}]\n", us, c.bytes / us * 1e-3,
             c.flops / us * 1e-3, share, against, c.text, c.backend);
  std::fflush(stdout);
}

std::string Harness::JsonLine(const Case& c, double us, const PeerTime* peer) {
  nlohmann::ordered_json row{{"op", op_}, {"case", c.text}, {"backend", c.backend}, {"us", us}};
  if (c.bytes > 0) row["gb_per_s"] = c.bytes / us * 1e-3;
  if (c.flops > 0) row["tflop_per_s"] = c.flops / us * 1e-6;
  if (const double floor_us = FloorUs(c); floor_us > 0) row["floor_share"] = floor_us / us;
  if (peer != nullptr) {
    row["peer"] = peer->name;
    row["peer_us"] = peer->us;
    row["ratio"] = peer->us / us;
  }
  row["device"] = MachineName();
  row["commit"] = options_.commit;
  row["date"] = Today();
  return row.dump();
}

}  // namespace flashinfer::bench
