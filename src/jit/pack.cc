// SPDX-License-Identifier: Apache-2.0
// Reads and writes packs.
#include "jit/pack.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <system_error>

#include "core/check.h"
#include "core/text.h"
#include "jit/file.h"
#include "jit/hash.h"

namespace flashinfer::jit {
namespace {

constexpr std::string_view kMagic = "flashinfer pack 1";
// The strongest level that needs no extra memory to read; 20 kB take 5 ms.
constexpr int kLevel = 19;

/// Removes the first line.
std::string_view TakeLine(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

/// Removes the first word.
std::string_view TakeWord(std::string_view& line) {
  const size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

template <class T>
bool TakeNumber(std::string_view& line, T& value) {
  const std::string_view word = TakeWord(line);
  const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc{} && rest == word.data() + word.size();
}

bool ReadItem(std::string_view line, PackItem& item) {
  Resources& r = item.resources;
  item.digest = TakeWord(line);
  const bool is_good = TakeNumber(line, item.offset) && TakeNumber(line, item.packed_bytes) &&
                       TakeNumber(line, item.cubin_bytes) && TakeNumber(line, r.num_registers) &&
                       TakeNumber(line, r.stack_bytes) && TakeNumber(line, r.spill_store_bytes) &&
                       TakeNumber(line, r.spill_load_bytes) &&
                       TakeNumber(line, r.static_smem_bytes);
  item.sha256 = TakeWord(line);
  item.spec = line;
  return is_good && item.sha256.size() == 64;
}

std::string ItemLine(const PackedKernel& kernel, uint64_t offset, uint64_t packed_bytes) {
  const Resources& r = kernel.binary.resources;
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {}\n", kernel.digest, offset, packed_bytes,
                     kernel.binary.cubin.size(), r.num_registers, r.stack_bytes,
                     r.spill_store_bytes, r.spill_load_bytes, r.static_smem_bytes,
                     Sha256(kernel.binary.cubin), kernel.spec);
}

std::string Compress(const std::string& bytes) {
  std::string packed(ZSTD_compressBound(bytes.size()), '\0');
  const size_t size =
      ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), kLevel);
  FLASHINFER_ASSERT(ZSTD_isError(size) == 0, "Zstandard: {}", ZSTD_getErrorName(size));
  packed.resize(size);
  return packed;
}

[[noreturn]] void ThrowIo(const std::string& path, std::string_view what, int error) {
  throw Error(ErrorKind::kIo,
              fmt::format("{}: {}: {}", path, what, std::generic_category().message(error)));
}

std::string_view Map(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (fd < 0 || fstat(fd, &status) != 0) {
    const int error = errno;
    if (fd >= 0) close(fd);
    ThrowIo(path, "cannot be read", error);
  }
  if (S_ISDIR(status.st_mode)) {
    close(fd);
    throw Error(ErrorKind::kIo, path + ": is a folder");
  }
  const auto size = static_cast<size_t>(status.st_size);
  void* bytes = size == 0 ? nullptr : mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  const int error = errno;
  close(fd);
  if (bytes == MAP_FAILED) ThrowIo(path, "cannot be mapped", error);
  return {static_cast<const char*>(bytes), size};
}

}  // namespace

std::shared_ptr<const Pack> Pack::Open(const std::string& path) {
  const std::shared_ptr<Pack> pack(new Pack(path, Map(path)));
  pack->ReadIndex();
  return pack;
}

Pack::~Pack() {
  if (bytes_.data() != nullptr) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

void Pack::ThrowDamaged(std::string_view what) const {
  throw Error(ErrorKind::kIo, fmt::format("{}: {}", path_, what));
}

void Pack::ReadIndex() {
  const size_t end = bytes_.find("\n\n");
  if (!bytes_.starts_with(kMagic) || end == std::string_view::npos) {
    ThrowDamaged("is not a pack of this version");
  }
  std::string_view head = bytes_.substr(0, end + 1);
  frames_ = bytes_.substr(end + 2);
  const size_t hash_line = head.rfind("\nindex_sha256 ", head.size() - 2);
  if (hash_line == std::string_view::npos ||
      Sha256(head.substr(0, hash_line + 1)) != head.substr(hash_line + 14, 64)) {
    ThrowDamaged("has a damaged index");
  }
  head = head.substr(0, hash_line + 1);
  TakeLine(head);
  std::string_view line = TakeLine(head);
  TakeWord(line);
  target_ = line;
  line = TakeLine(head);
  TakeWord(line);
  compiler_ = line;
  while (!head.empty()) {
    PackItem item;
    if (!ReadItem(TakeLine(head), item)) ThrowDamaged("has a damaged index");
    if (item.offset > frames_.size() || item.packed_bytes > frames_.size() - item.offset) {
      ThrowDamaged(fmt::format("ends before the kernel {}", item.spec));
    }
    items_.push_back(item);
  }
}

const PackItem* Pack::Find(std::string_view digest) const {
  const auto at = std::lower_bound(
      items_.begin(), items_.end(), digest,
      [](const PackItem& item, std::string_view wanted) { return item.digest < wanted; });
  return at != items_.end() && at->digest == digest ? &*at : nullptr;
}

Binary Pack::Unpack(const PackItem& item) const {
  Binary binary{.cubin = {}, .resources = item.resources, .compiler = std::string(compiler_)};
  const std::string_view frame = frames_.substr(item.offset, item.packed_bytes);
  // Before memory is taken for what a damaged index claims.
  if (ZSTD_getFrameContentSize(frame.data(), frame.size()) != item.cubin_bytes) {
    ThrowDamaged(fmt::format("has a damaged kernel: {}", item.spec));
  }
  binary.cubin.resize(item.cubin_bytes);
  const size_t size =
      ZSTD_decompress(binary.cubin.data(), binary.cubin.size(), frame.data(), frame.size());
  if (size != item.cubin_bytes || Sha256(binary.cubin) != item.sha256) {
    ThrowDamaged(fmt::format("has a damaged kernel: {}", item.spec));
  }
  return binary;
}

std::string PackFileName(Target target) {
  return fmt::format("flashinfer-sm{}.pack", Name(target));
}

void WritePack(const std::string& path, Target target, std::vector<PackedKernel> kernels) {
  FLASHINFER_CHECK(!kernels.empty(), "{}: a pack needs one kernel or more", path);
  const auto before = [](const PackedKernel& a, const PackedKernel& b) {
    return a.digest < b.digest;
  };
  const auto same = [](const PackedKernel& a, const PackedKernel& b) {
    return a.digest == b.digest;
  };
  std::sort(kernels.begin(), kernels.end(), before);
  kernels.erase(std::unique(kernels.begin(), kernels.end(), same), kernels.end());
  std::string head = fmt::format("{}\ntarget sm_{}\ncompiler {}\n", kMagic, Name(target),
                                 kernels.front().binary.compiler);
  std::string frames;
  for (const PackedKernel& kernel : kernels) {
    const std::string frame = Compress(kernel.binary.cubin);
    head += ItemLine(kernel, frames.size(), frame.size());
    frames += frame;
  }
  const std::string file = fmt::format("{}index_sha256 {}\n\n{}", head, Sha256(head), frames);
  if (!WriteFileAside(path, file)) ThrowIo(path, "cannot be written", errno);
}

}  // namespace flashinfer::jit
