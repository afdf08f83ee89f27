// SPDX-License-Identifier: Apache-2.0
// Compiles units, and reads what the compiler says.
#include "jit/nvrtc.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <set>

#include "core/check.h"
#include "core/text.h"
#include "jit/nvrtc_library.h"

namespace flashinfer::jit {
namespace {

constexpr int kCancelled = 16;

std::atomic<bool (*)()> cancel_requested{nullptr};

int AskForCancel(void*, void*) {
  bool (*const is_requested)() = cancel_requested.load(std::memory_order_relaxed);
  return is_requested != nullptr && is_requested() ? 1 : 0;
}

/// Owns a program.
class Program {
 public:
  Program(const NvrtcLibrary& library, const Unit& unit) : library_(library) {
    std::vector<const char*> texts;
    std::vector<const char*> names;
    const std::span<const EmbeddedHeader> headers = EmbeddedHeaders();
    std::set<uint16_t> indices;
    for (const std::string& header : unit.headers) {
      const std::span<const uint16_t> closure = FindHeader(header).closure;
      indices.insert(closure.begin(), closure.end());
    }
    for (uint16_t index : indices) {  // views of string literals
      texts.push_back(headers[index].text.data());
      names.push_back(headers[index].name.data());
    }
    Check(library.nvrtcCreateProgram(&program_, unit.source.c_str(), "unit.cu",
                                     static_cast<int>(texts.size()), texts.data(), names.data()),
          "nvrtcCreateProgram");
    if (library.nvrtcSetFlowCallback != nullptr) {
      Check(library.nvrtcSetFlowCallback(program_, AskForCancel, nullptr), "nvrtcSetFlowCallback");
    }
  }
  ~Program() { library_.nvrtcDestroyProgram(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  int Compile(const std::vector<std::string>& options) {
    std::vector<const char*> pointers;
    pointers.reserve(options.size());
    for (const std::string& option : options) pointers.push_back(option.c_str());
    return library_.nvrtcCompileProgram(program_, static_cast<int>(pointers.size()),
                                        pointers.data());
  }

  std::string Log() const {
    size_t size = 0;
    Check(library_.nvrtcGetProgramLogSize(program_, &size), "nvrtcGetProgramLogSize");
    std::string log(size, '\0');
    Check(library_.nvrtcGetProgramLog(program_, log.data()), "nvrtcGetProgramLog");
    while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
    return log;
  }

  std::string Cubin() const {
    size_t size = 0;
    Check(library_.nvrtcGetCUBINSize(program_, &size), "nvrtcGetCUBINSize");
    std::string cubin(size, '\0');
    Check(library_.nvrtcGetCUBIN(program_, cubin.data()), "nvrtcGetCUBIN");
    return cubin;
  }

 private:
  void Check(int result, std::string_view call) const {
    if (result == 0) return;
    throw Error(ErrorKind::kCompile, fmt::format("{}: error {}, {}", call, result,
                                                 library_.nvrtcGetErrorString(result)));
  }

  const NvrtcLibrary& library_;
  NvrtcLibrary::Program program_ = nullptr;
};

std::vector<std::string_view> Lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// The number before `what` in `line`: `Used 14 registers` and ` registers` give 14.
void ReadBefore(std::string_view line, std::string_view what, int32_t& value) {
  const size_t end = line.find(what);
  if (end == std::string_view::npos) return;
  size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  std::from_chars(line.data() + begin, line.data() + end, value);
}

/// Splits the assembler's report from the log.
Resources ReadReport(std::string& log) {
  Resources r;
  std::string rest;
  for (std::string_view line : Lines(log)) {
    const bool is_report = line.starts_with("ptxas info") || line.starts_with("ptxas         .");
    if (!is_report) {
      if (!line.empty()) rest.append(line).append("\n");
      continue;
    }
    ReadBefore(line, " bytes stack frame", r.stack_bytes);
    ReadBefore(line, " bytes spill stores", r.spill_store_bytes);
    ReadBefore(line, " bytes spill loads", r.spill_load_bytes);
    ReadBefore(line, " registers", r.num_registers);
    if (line.find(" registers") != std::string_view::npos) r.static_smem_bytes = 0;
    ReadBefore(line, " bytes smem", r.static_smem_bytes);
  }
  log = rest;
  return r;
}

/// The first line that says `error`, or the whole log when none does.
std::string FirstError(const std::string& log) {
  for (std::string_view line : Lines(log)) {
    if (line.find("error") != std::string_view::npos) return std::string(line);
  }
  return log;
}

/// ptxas found that it must run wgmma instructions one after the other: right, and several times
/// slower. Never wanted.
bool SaysSerialized(const std::string& log) {
  return log.find("C7509") != std::string::npos || log.find("C7510") != std::string::npos;
}

void CheckTarget(const NvrtcLibrary& library, const Unit& unit, Target target) {
  if (target.arch < unit.min_arch) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("{}: needs SM{}, this is SM{}", unit.spec, unit.min_arch, target.arch));
  }
  if (std::find(library.archs.begin(), library.archs.end(), target.arch) == library.archs.end()) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("{} ({}) does not know the architecture sm_{}", library.info.path,
                            library.info.Name(), Name(target)));
  }
}

}  // namespace

std::string NvrtcInfo::Name() const { return fmt::format("nvrtc-{}.{}", major, minor); }

const NvrtcInfo* FindNvrtc(std::string* why) {
  const NvrtcLibrary* library = OpenNvrtc(why);
  return library == nullptr ? nullptr : &library->info;
}

Target TargetFor(int32_t arch) {
  const NvrtcLibrary* library = OpenNvrtc(nullptr);
  Target target = TargetOf(arch);
  if (library == nullptr) return target;
  int32_t nearest = 0;
  for (int known : library->archs) {
    if (known / 10 == arch / 10 && known <= arch) nearest = std::max(nearest, known);
  }
  // The form with all features runs on its own architecture alone.
  return nearest == arch || nearest == 0 ? target : Target{nearest};
}

void SetCancelRequested(bool (*is_requested)()) {
  cancel_requested.store(is_requested, std::memory_order_relaxed);
}

Compilation Compile(const Unit& unit, Target target) {
  std::string why;
  const NvrtcLibrary* library = OpenNvrtc(&why);
  if (library == nullptr) throw Error(ErrorKind::kUnsupported, unit.spec + ": " + why);
  CheckTarget(*library, unit, target);
  const auto start = std::chrono::steady_clock::now();
  Program program(*library, unit);
  std::vector<std::string> options = CompilerOptions();
  options.push_back("--gpu-architecture=sm_" + Name(target));
  // From CUDA 13 on the compiler has a cache of its own in the driver, whose hits lack the report
  // and differ in their bytes.
  if (library->info.major >= 13) options.emplace_back("--no-cache");
  const int result = program.Compile(options);
  if (result == kCancelled) throw Error(ErrorKind::kCompile, unit.spec + ": was cancelled");
  Compilation compilation;
  compilation.log = program.Log();
  if (result != 0 || SaysSerialized(compilation.log)) {
    throw Error(ErrorKind::kCompile,
                fmt::format("{} does not compile for sm_{}: {}\n{}", unit.spec, Name(target),
                            FirstError(compilation.log), compilation.log));
  }
  compilation.binary = {.cubin = program.Cubin(),
                        .resources = ReadReport(compilation.log),
                        .compiler = library->info.Name()};
  compilation.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return compilation;
}

}  // namespace flashinfer::jit
