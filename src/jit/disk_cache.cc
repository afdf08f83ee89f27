// SPDX-License-Identifier: Apache-2.0
// Reads, checks and writes the files of the kernel cache.
#include "jit/disk_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>

#include "core/log.h"
#include "core/text.h"
#include "jit/file.h"
#include "jit/hash.h"

namespace flashinfer::jit {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "flashinfer kernel 1\n";
constexpr std::string_view kSuffix = ".kernel";
/// As long as a compilation may take; then the other process is taken for stuck.
constexpr auto kLongestWait = std::chrono::seconds(20);
constexpr auto kPollInterval = std::chrono::milliseconds(4);

void WarnOnce(const std::string& folder, std::string_view what, int error) {
  static std::atomic<bool> has_warned{false};
  if (has_warned.exchange(true)) return;
  LogLine(fmt::format("kernel cache {}: {}: {}; compiled kernels are kept in memory alone", folder,
                      what, std::generic_category().message(error)));
}

/// The value of line `name` of the description; empty when there is none.
std::string_view Field(std::string_view description, std::string_view name) {
  const size_t at = description.find(fmt::format("\n{} ", name));
  if (at == std::string_view::npos) return {};
  const size_t begin = at + name.size() + 2;
  return description.substr(begin, description.find('\n', begin) - begin);
}

template <class T>
bool ReadNumber(std::string_view text, T& value) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && rest == text.data() + text.size();
}

std::string Describe(Target target, const std::string& spec, const Binary& binary) {
  const Resources& r = binary.resources;
  return fmt::format(
      "{}spec {}\ntarget sm_{}\ncompiler {}\nregisters {}\nstack_bytes {}\nspill_store_bytes {}\n"
      "spill_load_bytes {}\nstatic_smem_bytes {}\ncubin_bytes {}\n",
      kMagic, spec, Name(target), binary.compiler, r.num_registers, r.stack_bytes,
      r.spill_store_bytes, r.spill_load_bytes, r.static_smem_bytes, binary.cubin.size());
}

/// The file: a description in lines, the hash of all else as its last one, an empty line, the
/// CUBIN.
std::string Encode(Target target, const std::string& spec, const Binary& binary) {
  const std::string description = Describe(target, spec, binary);
  return fmt::format("{}hash {}\n\n{}", description, Hash128(description + binary.cubin),
                     binary.cubin);
}

/// Null with what is wrong in `why`.
std::optional<CacheEntry> Decode(std::string_view bytes, std::string& why) {
  const size_t end = bytes.find("\n\n");
  if (!bytes.starts_with(kMagic) || end == std::string_view::npos) {
    why = "is not a kernel file of this version";
    return std::nullopt;
  }
  const std::string_view head = bytes.substr(0, end + 1);
  const std::string_view cubin = bytes.substr(end + 2);
  const size_t hash_line = head.rfind("\nhash ");
  CacheEntry entry;
  Resources& r = entry.binary.resources;
  size_t size = 0;
  if (hash_line == std::string_view::npos || !ReadNumber(Field(head, "cubin_bytes"), size) ||
      !ReadNumber(Field(head, "registers"), r.num_registers) ||
      !ReadNumber(Field(head, "stack_bytes"), r.stack_bytes) ||
      !ReadNumber(Field(head, "spill_store_bytes"), r.spill_store_bytes) ||
      !ReadNumber(Field(head, "spill_load_bytes"), r.spill_load_bytes) ||
      !ReadNumber(Field(head, "static_smem_bytes"), r.static_smem_bytes)) {
    why = "has a damaged description";
    return std::nullopt;
  }
  if (size != cubin.size()) {
    why = fmt::format("has {} bytes of code, {} expected", cubin.size(), size);
    return std::nullopt;
  }
  std::string hashed(head.substr(0, hash_line + 1));
  hashed += cubin;
  if (Hash128(hashed) != Field(head, "hash")) {
    why = "has another hash than it says";
    return std::nullopt;
  }
  entry.spec = Field(head, "spec");
  entry.target = Field(head, "target");
  entry.binary.compiler = Field(head, "compiler");
  entry.binary.cubin = cubin;
  return entry;
}

}  // namespace

std::optional<Binary> DiskCache::LoadFile(const std::string& path, Target target) const {
  const std::optional<std::string> bytes = ReadFile(path);
  if (!bytes) return std::nullopt;
  std::string why;
  std::optional<CacheEntry> entry = Decode(*bytes, why);
  if (entry && entry->target != "sm_" + Name(target)) {
    why = fmt::format("is for {}, not sm_{}", entry->target, Name(target));
    entry.reset();
  }
  if (entry) return std::move(entry->binary);
  unlink(path.c_str());
  LogLine(fmt::format("kernel cache: {} {}; removed", path, why));
  return std::nullopt;
}

std::optional<Binary> DiskCache::Load(const std::string& digest, Target target,
                                      const std::string& compiler) const {
  if (folder_.empty()) return std::nullopt;
  if (!compiler.empty()) {
    return LoadFile(fmt::format("{}/{}.{}{}", folder_, digest, compiler, kSuffix), target);
  }
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(digest) || !name.ends_with(kSuffix)) continue;
    if (std::optional<Binary> binary = LoadFile(it->path().string(), target)) return binary;
  }
  return std::nullopt;
}

void DiskCache::Save(const std::string& digest, Target target, const std::string& spec,
                     const Binary& binary) const {
  if (folder_.empty()) return;
  if (!MakeFolders(folder_)) return WarnOnce(folder_, "cannot be made", errno);
  const std::string path = fmt::format("{}/{}.{}{}", folder_, digest, binary.compiler, kSuffix);
  if (!WriteFileAside(path, Encode(target, spec, binary))) {
    WarnOnce(folder_, "cannot be written", errno);
  }
}

std::vector<CacheEntry> DiskCache::List() const {
  std::vector<CacheEntry> entries;
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() != kSuffix) continue;
    const std::optional<std::string> bytes = ReadFile(it->path().string());
    std::string why;
    std::optional<CacheEntry> entry = bytes ? Decode(*bytes, why) : std::nullopt;
    if (!entry) continue;
    entry->path = it->path().string();
    entry->file_bytes = bytes->size();
    entries.push_back(std::move(*entry));
  }
  std::sort(entries.begin(), entries.end(), [](const CacheEntry& a, const CacheEntry& b) {
    return std::tie(a.spec, a.target, a.path) < std::tie(b.spec, b.target, b.path);
  });
  return entries;
}

int64_t DiskCache::Clear() const {
  int64_t num_removed = 0;
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator it(folder_, error), end; !error && it != end;
       it.increment(error)) {
    const std::string extension = it->path().extension().string();
    if (extension == kSuffix || extension == ".lock" || extension == ".tmp" || extension == ".cu") {
      files.push_back(it->path());
    }
  }
  for (const fs::path& file : files) num_removed += fs::remove(file, error) ? 1 : 0;
  return num_removed;
}

std::string DiskCache::LeaveSource(const std::string& digest, const std::string& source) const {
  if (folder_.empty()) return "";
  const std::string folder = folder_ + "/failed";
  const std::string path = fmt::format("{}/{}.cu", folder, digest);
  return MakeFolders(folder) && WriteFileAside(path, source) ? path : "";
}

CompileLock::CompileLock(const std::string& folder, const std::string& digest)
    : path_(fmt::format("{}/{}.lock", folder, digest)) {
  if (folder.empty() || !MakeFolders(folder)) return;
  file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file_ < 0) return;
  const auto deadline = std::chrono::steady_clock::now() + kLongestWait;
  while (flock(file_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK || std::chrono::steady_clock::now() > deadline) {
      close(file_);
      file_ = -1;
      return;
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

CompileLock::~CompileLock() {
  if (file_ < 0) return;
  // Whoever waits on this file gets it and finds the kernel on disk; who comes later makes another.
  unlink(path_.c_str());
  close(file_);
}

}  // namespace flashinfer::jit
