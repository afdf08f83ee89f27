// SPDX-License-Identifier: Apache-2.0
// Worker processes that compile, and the frames that they send.
#include "compile_workers.h"

#include <poll.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <numeric>
#include <thread>
#include <type_traits>

#include <fmt/format.h>

#include "flashinfer/error.h"
#include "terminal.h"

namespace flashinfer::cli {
namespace {

constexpr int64_t kWorkerKib = 400 * 1024;

bool WriteAll(int fd, const void* bytes, size_t size) {
  const char* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t n = write(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

/// False at the end of the pipe.
bool ReadAll(int fd, void* bytes, size_t size) {
  char* at = static_cast<char*>(bytes);
  while (size > 0) {
    const ssize_t n = read(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

/// Visits what a frame holds of a kernel, in order.
template <class Kernel, class Visit>
void ForEachPart(Kernel& k, Visit&& visit) {
  visit(k.spec);
  visit(k.arch);
  visit(k.origin);
  visit(k.compiler);
  visit(k.cubin);
  visit(k.log);
  visit(k.seconds);
  visit(k.num_threads);
  visit(k.dynamic_smem_bytes);
  visit(k.static_smem_bytes);
  visit(k.num_registers);
  visit(k.stack_bytes);
  visit(k.spill_store_bytes);
  visit(k.spill_load_bytes);
}

std::string Encode(const CompiledKernel& kernel) {
  std::string frame;
  ForEachPart(kernel, [&]<class T>(const T& part) {
    if constexpr (std::is_same_v<T, std::string>) {
      const uint64_t size = part.size();
      frame.append(reinterpret_cast<const char*>(&size), sizeof(size)).append(part);
    } else {
      frame.append(reinterpret_cast<const char*>(&part), sizeof(part));
    }
  });
  return frame;
}

CompiledKernel Decode(const std::string& frame) {
  CompiledKernel kernel;
  size_t at = 0;
  const auto take = [&](void* to, size_t size) {
    std::memcpy(to, frame.data() + at, size);
    at += size;
  };
  ForEachPart(kernel, [&]<class T>(T& part) {
    if constexpr (std::is_same_v<T, std::string>) {
      uint64_t size = 0;
      take(&size, sizeof(size));
      part = frame.substr(at, size);
      at += size;
    } else {
      take(&part, sizeof(part));
    }
  });
  return kernel;
}

struct FrameHeader {
  int32_t error_kind;  ///< -1: a kernel follows; else the message of an error
  uint64_t size;
};

/// In the child: compiles the jobs whose indices come in, until the pipe ends.
[[noreturn]] void Work(const std::vector<CompileJob>& jobs, int in, int out) {
  for (uint64_t index = 0; ReadAll(in, &index, sizeof(index));) {
    FrameHeader header{.error_kind = -1, .size = 0};
    std::string frame;
    try {
      frame = Encode(CompileKernel(jobs[index].spec, jobs[index].arch));
    } catch (const Error& error) {
      header.error_kind = static_cast<int32_t>(error.kind());
      frame = error.what();
    }
    header.size = frame.size();
    if (!WriteAll(out, &header, sizeof(header)) || !WriteAll(out, frame.data(), frame.size())) {
      break;
    }
  }
  _exit(0);
}

/// A child process and the ends of its pipes.
struct Worker {
  pid_t process = -1;
  int to = -1;
  int from = -1;
  size_t job = 0;
  bool is_busy = false;
};

class Workers {
 public:
  Workers(const std::vector<CompileJob>& jobs, int count) : jobs_(jobs) {
    workers_.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) Start();
  }
  ~Workers() {
    for (const Worker& worker : workers_) {
      close(worker.to);
      close(worker.from);
      kill(worker.process, SIGKILL);
    }
    for (const Worker& worker : workers_) {
      while (waitpid(worker.process, nullptr, 0) < 0 && errno == EINTR) continue;
    }
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void Give(size_t job) {
    const auto idle = std::find_if(workers_.begin(), workers_.end(),
                                   [](const Worker& worker) { return !worker.is_busy; });
    const uint64_t index = job;
    if (!WriteAll(idle->to, &index, sizeof(index))) ThrowDead(*idle, job);
    idle->job = job;
    idle->is_busy = true;
    ++num_busy_;
  }
  size_t num_busy() const { return num_busy_; }
  bool has_idle() const { return num_busy_ < workers_.size(); }

  /// Waits for the next result.
  CompiledKernel Take(size_t& job) {
    Worker& worker = Ready();
    worker.is_busy = false;
    --num_busy_;
    job = worker.job;
    FrameHeader header{};
    if (!ReadAll(worker.from, &header, sizeof(header))) ThrowDead(worker, job);
    std::string frame(header.size, '\0');
    if (!ReadAll(worker.from, frame.data(), frame.size())) ThrowDead(worker, job);
    if (header.error_kind >= 0) throw Error(static_cast<ErrorKind>(header.error_kind), frame);
    return Decode(frame);
  }

 private:
  void Start() {
    std::array<int, 2> to{};
    std::array<int, 2> from{};
    if (pipe(to.data()) != 0 || pipe(from.data()) != 0) {
      throw Error(ErrorKind::kIo, "a pipe to a worker cannot be made");
    }
    const pid_t process = fork();
    if (process < 0) throw Error(ErrorKind::kIo, "a worker process cannot be started");
    if (process == 0) {
      // An end of another worker's pipe that stayed open here would keep that worker waiting.
      for (const Worker& worker : workers_) {
        close(worker.to);
        close(worker.from);
      }
      close(to[1]);
      close(from[0]);
      signal(SIGINT, SIG_IGN);  // the parent ends its workers
      Work(jobs_, to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    workers_.push_back({.process = process, .to = to[1], .from = from[0]});
  }

  Worker& Ready() {
    std::vector<pollfd> polled;
    polled.reserve(workers_.size());
    for (const Worker& worker : workers_) {
      polled.push_back({.fd = worker.is_busy ? worker.from : -1, .events = POLLIN, .revents = 0});
    }
    do {
      if (Interrupted()) throw Error(ErrorKind::kCompile, "was interrupted");
    } while (poll(polled.data(), polled.size(), -1) <= 0);
    for (size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].revents != 0) return workers_[i];
    }
    throw Error(ErrorKind::kInternal, "poll() returned without a reason");
  }

  [[noreturn]] void ThrowDead(const Worker& worker, size_t job) {
    int status = 0;
    waitpid(worker.process, &status, 0);
    throw Error(
        ErrorKind::kCompile,
        fmt::format("{} for sm_{}: the compiler's process ended by signal {}", jobs_[job].spec,
                    jobs_[job].arch, WIFSIGNALED(status) ? WTERMSIG(status) : 0));
  }

  const std::vector<CompileJob>& jobs_;
  std::vector<Worker> workers_;
  size_t num_busy_ = 0;
};

}  // namespace

int UsableWorkers() {
  const auto cores = static_cast<int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  std::ifstream memory("/proc/meminfo");
  for (std::string word; memory >> word;) {
    int64_t kib = 0;
    if (word == "MemAvailable:" && memory >> kib) {
      return static_cast<int>(std::clamp(kib / kWorkerKib, int64_t{1}, cores));
    }
  }
  return static_cast<int>(cores);
}

std::vector<CompiledKernel> CompileAll(
    const std::vector<CompileJob>& jobs, int num_workers,
    const std::function<void(size_t done, const CompileJob& job)>& on_done) {
  Workers workers(jobs, std::min(num_workers, static_cast<int>(std::max<size_t>(1, jobs.size()))));
  std::vector<CompiledKernel> kernels(jobs.size());
  std::vector<size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return jobs[a].weight > jobs[b].weight; });
  size_t given = 0;
  for (size_t done = 0; done < jobs.size();) {
    while (given < jobs.size() && workers.has_idle()) workers.Give(order[given++]);
    size_t job = 0;
    CompiledKernel kernel = workers.Take(job);
    kernels[job] = std::move(kernel);
    on_done(++done, jobs[job]);
  }
  return kernels;
}

}  // namespace flashinfer::cli
