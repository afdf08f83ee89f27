// SPDX-License-Identifier: Apache-2.0
// Folders of dumped calls: descriptions in JSON, elements as raw files, limits.
#include "core/dump.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <vector>

#include "core/check.h"
#include "core/element.h"
#include "core/env.h"
#include "core/text.h"
#include "flashinfer/version.h"

namespace flashinfer {
namespace {

/// A call that has begun; `folder` is empty when it is not dumped.
struct OpenCall {
  std::string op;
  std::string folder;
};

/// Of the calling thread, outermost first: an operator may call another one.
thread_local std::vector<OpenCall> open_calls;

struct Dumper {
  std::mutex mutex;
  DumpSettings settings;
  std::string prefix;  ///< `20261130T101500_4711_`
  int64_t num_calls = 0;
  int64_t num_bytes = 0;
  bool has_ended = false;
};

std::string ProcessPrefix() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%S", &parts);
  return fmt::format("{}_{}_", text.data(), getpid());
}

DumpSettings SettingsOf(const Env& env) {
  return {env.dump_folder, env.dump_max_size_gb, env.dump_max_count, env.dump_include,
          env.dump_exclude};
}

Dumper& GetDumper() {
  static Dumper& dumper = *[] {
    auto* made = new Dumper;  // never destroyed: calls may come during exit
    made->settings = SettingsOf(GetEnv());
    made->prefix = ProcessPrefix();
    return made;
  }();
  return dumper;
}

/// Whether `op` matches one of the patterns between commas.
bool MatchesAny(const std::string& op, const std::string& patterns) {
  for (size_t at = 0; at < patterns.size();) {
    const size_t comma = std::min(patterns.find(',', at), patterns.size());
    if (fnmatch(patterns.substr(at, comma - at).c_str(), op.c_str(), 0) == 0) return true;
    at = comma + 1;
  }
  return false;
}

bool IsHere(const TensorView& tensor) {
  return tensor.device().type == DeviceType::kCpu &&
         (tensor.data() != nullptr || tensor.num_elements() == 0);
}

int64_t BytesOf(std::span<const LogArgument> arguments) {
  int64_t bytes = 0;
  for (const LogArgument& a : arguments) {
    if (a.tensor == nullptr || !a.tensor->defined() || !IsHere(*a.tensor)) continue;
    bytes += a.tensor->num_elements() * SizeBytes(a.tensor->dtype());
  }
  return bytes;
}

/// Counts `bytes`; false, once with a line, when the limit would be passed. Under the mutex.
bool Reserve(Dumper& dumper, int64_t bytes) {
  const double total = static_cast<double>(dumper.num_bytes) + static_cast<double>(bytes);
  const bool is_large = total > dumper.settings.max_size_gb * 1e9;
  if (is_large || dumper.num_calls > dumper.settings.max_count) {
    LogLine(fmt::format("calls are no longer dumped: {} of {} is reached",
                        is_large ? "FLASHINFER_DUMP_MAX_SIZE_GB" : "FLASHINFER_DUMP_MAX_COUNT",
                        is_large ? ValueText(static_cast<float>(dumper.settings.max_size_gb))
                                 : ValueText(dumper.settings.max_count)));
    dumper.has_ended = true;
    return false;
  }
  dumper.num_bytes += bytes;
  return true;
}

/// A file that is written whole, or throws kIo.
class OutputFile {
 public:
  explicit OutputFile(std::string path)
      : path_(std::move(path)), file_(std::fopen(path_.c_str(), "wbe")) {
    if (file_ == nullptr) Throw();
  }
  ~OutputFile() {
    if (file_ != nullptr) std::fclose(file_);
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void Write(const void* data, size_t bytes) {
    if (bytes > 0 && std::fwrite(data, 1, bytes, file_) != bytes) Throw();
  }
  void Close() {
    std::FILE* file = file_;
    file_ = nullptr;
    if (std::fclose(file) != 0) Throw();
  }

 private:
  [[noreturn]] void Throw() const {
    throw Error(ErrorKind::kIo, fmt::format("{}: {}", path_, std::strerror(errno)));
  }

  std::string path_;
  std::FILE* file_;
};

void WriteElements(const TensorView& tensor, const std::string& path) {
  OutputFile file(path);
  const size_t size = static_cast<size_t>(SizeBytes(tensor.dtype()));
  if (tensor.is_contiguous()) {
    file.Write(tensor.data(), static_cast<size_t>(tensor.num_elements()) * size);
  } else {
    ForEachOffset(tensor, [&](int64_t offset) {
      file.Write(tensor.data_as<const char>() + offset * static_cast<int64_t>(size), size);
    });
  }
  file.Close();
}

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      quoted.append(1, '\\').append(1, c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

/// Writes the elements to `folder/file_prefix name.bin` and describes the tensor.
std::string DumpTensor(std::string_view name, const TensorView& tensor, const std::string& folder,
                       std::string_view file_prefix) {
  if (!tensor.defined()) return "null";
  std::string text = fmt::format(R"({{"dtype": "{}", "shape": {}, "strides": {}, "device": "{}")",
                                 Name(tensor.dtype()), Text(tensor.shape()), Text(tensor.strides()),
                                 Name(tensor.device()));
  if (!IsHere(tensor)) return text + "}";
  const std::string file = fmt::format("{}{}.bin", file_prefix, name);
  WriteElements(tensor, folder + "/" + file);
  return text + fmt::format(R"(, "data": {}}})", Quoted(file));
}

/// `head` and the arguments as one JSON object in `folder/file`.
void WriteDescription(const OpenCall& call, std::string_view file, std::string_view head,
                      std::span<const LogArgument> arguments, std::string_view file_prefix) {
  std::string text = fmt::format("{{\n  {}\"arguments\": {{", head);
  std::string_view separator = "\n    ";
  for (const LogArgument& a : arguments) {
    text +=
        fmt::format("{}{}: {}", separator, Quoted(a.name),
                    a.tensor == nullptr ? Quoted(a.text)
                                        : DumpTensor(a.name, *a.tensor, call.folder, file_prefix));
    separator = ",\n    ";
  }
  text += "\n  }\n}\n";
  // Last, so that a description's files are whole.
  OutputFile json(fmt::format("{}/{}", call.folder, file));
  json.Write(text.data(), text.size());
  json.Close();
}

/// The folder for a call, or nothing when it is not to be dumped.
std::string TakeFolder(const std::string& op, std::span<const LogArgument> arguments) {
  Dumper& dumper = GetDumper();
  const std::lock_guard lock(dumper.mutex);
  const DumpSettings& settings = dumper.settings;
  if (dumper.has_ended || MatchesAny(op, settings.exclude)) return "";
  if (!settings.include.empty() && !MatchesAny(op, settings.include)) return "";
  ++dumper.num_calls;
  if (!Reserve(dumper, BytesOf(arguments))) return "";
  return fmt::format("{}/{}{:06}_{}", settings.folder, dumper.prefix, dumper.num_calls, op);
}

}  // namespace

void DumpCall(std::string_view op, std::span<const LogArgument> arguments) {
  OpenCall call{std::string(op), ""};
  try {
    call.folder = TakeFolder(call.op, arguments);
    if (!call.folder.empty()) {
      std::filesystem::create_directories(call.folder);
      const std::string head =
          fmt::format("\"op\": {},\n  \"library_version\": {},\n  ", Quoted(op), Quoted(Version()));
      WriteDescription(call, "call.json", head, arguments, "");
    }
  } catch (const std::exception& error) {
    LogLine(fmt::format("cannot dump a call of {}: {}", op, error.what()));
    call.folder.clear();
  }
  constexpr size_t kMaxDepth = 8;  // calls that threw never return
  if (open_calls.size() >= kMaxDepth) open_calls.erase(open_calls.begin());
  open_calls.push_back(std::move(call));
}

void DumpReturn(std::string_view op, std::span<const LogArgument> outputs) {
  // Calls that threw are still there, above the one that returns.
  while (!open_calls.empty() && open_calls.back().op != op) open_calls.pop_back();
  if (open_calls.empty()) return;
  const OpenCall call = std::move(open_calls.back());
  open_calls.pop_back();
  if (call.folder.empty()) return;
  try {
    Dumper& dumper = GetDumper();
    {
      const std::lock_guard lock(dumper.mutex);
      if (dumper.has_ended || !Reserve(dumper, BytesOf(outputs))) return;
    }
    WriteDescription(call, "return.json", "", outputs, "returned.");
  } catch (const std::exception& error) {
    LogLine(fmt::format("cannot dump what {} wrote: {}", op, error.what()));
  }
}

void SetDumping(const DumpSettings& settings) {
  Dumper& dumper = GetDumper();
  const std::lock_guard lock(dumper.mutex);
  dumper.settings = settings;
  dumper.num_calls = 0;
  dumper.num_bytes = 0;
  dumper.has_ended = false;
}

}  // namespace flashinfer
