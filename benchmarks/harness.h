// SPDX-License-Identifier: Apache-2.0
// Measures calls against the machine's floor and a peer; prints a table and writes JSON lines.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/page_block.h"
#include "gpu_timer.h"
#include "support/device.h"

namespace flashinfer::bench {

/// The multiplier that bounds a case's arithmetic.
enum class Math : uint8_t { kF32, kBF16, kI8 };

/// What one call does, for the floor: the least time in which this machine moves `bytes` and does
/// `flops`.
struct Case {
  std::string text;     ///< `dtype=bf16 num_rows=1 hidden_size=4096`: with the op's name, the key
  std::string backend;  ///< candidate that runs it, as Explain() names it
  double bytes = 0;     ///< read and written, each once
  double written = 0;   ///< of these, written
  double flops = 0;     ///< a multiply-add counts as two
  Math math = Math::kF32;
};

/// Median µs of one call of `run(iteration)`; iterations count up, for rotating over copies.
/// Warms up, then takes samples of at least 1 ms for about `seconds`.
double MedianUs(const std::function<void(int64_t)>& run, double seconds);

/// Bandwidths and peaks of the machine with the library's threads. Each measured at first use.
class Floors {
 public:
  /// From huge pages.
  double ReadGbPerS();
  /// Of a copy past the caches, read and written bytes together: more than of reads alone.
  double CopyGbPerS();
  /// Lets both be measured again: a virtual machine's share of the bandwidth changes by the minute.
  void ForgetBandwidths() { read_gb_per_s_ = copy_gb_per_s_ = 0; }
  /// Measures those again that are known, and keeps the means of then and now.
  void AverageBandwidths();
  double GflopPerS(Math math);
  /// The least time for a case.
  double Us(const Case& c);

 private:
  std::unique_ptr<cpu::PageBlock> block_;  ///< that is read
  double read_gb_per_s_ = 0;
  double copy_gb_per_s_ = 0;
  double gflop_per_s_[3] = {};
};

struct HarnessOptions {
  Device device;
  std::vector<std::string> filter;  ///< only cases whose text holds all of these
  std::string single_case;          ///< instead of an operator's list
  double seconds = 0.5;             ///< to sample each case
  std::string peers;                ///< JSON lines with a peer's times: op, case, peer, peer_us
  std::string output;               ///< JSON lines are appended to this file
  std::string commit;               ///< to record; empty: that of the current folder
  bool json = false;                ///< JSON lines on standard output instead of a table
};

/// Measures the cases of one operator: table, JSON lines.
class Harness {
 public:
  Harness(std::string_view op, const HarnessOptions& options);

  /// The cases to run of `standard`.
  std::vector<std::string> Cases(const std::vector<std::string>& standard) const;

  /// Where the operator runs, and the stream that calls go to.
  Device device() const { return options_.device; }
  Stream stream() const;

  /// The tensors of a case on the device: on the CPU those that are given. Begin() forgets them.
  test::DeviceCopies& on() { return *on_; }
  std::vector<TensorView> On(const std::vector<test::HostTensor>& tensors);
  void Begin() { on_ = std::make_unique<test::DeviceCopies>(device()); }

  /// Copies of a working set to rotate over so that no call finds it in a cache: 256 MB in all,
  /// at least one and at most 1024. One on a CUDA device, whose cache is flushed before each call.
  int64_t NumColdCopies(double bytes) const;

  /// Measures, prints a line, and appends a JSON line to the output. Returns the median µs: on the
  /// CPU of a call, on a CUDA device of what it enqueues, replayed as a graph.
  double Measure(const Case& c, const std::function<void(int64_t)>& run);

 private:
  struct PeerTime {
    std::string name;
    double us;
  };

  void ReadPeers(const std::string& path);
  std::string MachineName() const;
  /// The least time for a case. On a CUDA device that of its bytes alone; 0: it has none.
  double FloorUs(const Case& c);
  /// `peer` may be null.
  void Print(const Case& c, double us, const PeerTime* peer);
  std::string JsonLine(const Case& c, double us, const PeerTime* peer);
  /// A line for each of `lines`, which are JSON.
  void Write(const std::vector<std::string>& lines);

  std::string op_;
  HarnessOptions options_;
  bool header_printed_ = false;
  Floors floors_;
  std::unique_ptr<GpuTimer> timer_;  ///< of a CUDA device
  std::unique_ptr<test::DeviceCopies> on_;
  std::map<std::string, std::vector<PeerTime>> peers_;  // by case text
};

/// `AMD EPYC 9965, family 26 model 2, 2 threads`.
std::string DeviceName();

}  // namespace flashinfer::bench
