// SPDX-License-Identifier: Apache-2.0
// Mapping of files, and giving their pages back.
#include "engine/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "engine/read_error.h"

namespace flashinfer::engine {
namespace {

constexpr std::align_val_t kCopyAlignment{4096};

struct FileDescriptor {
  int fd;
  ~FileDescriptor() {
    if (fd >= 0) close(fd);
  }
};

}  // namespace

MappedFile MappedFile::Open(const std::string& path) {
  // Non-blocking, so that a named pipe is refused below instead of waited for.
  const FileDescriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat status;
  if (file.fd < 0 || fstat(file.fd, &status) != 0) {
    Fail(ErrorKind::kIo, "{}: {}", path, std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) Fail(ErrorKind::kIo, "{}: is not a regular file", path);
  const size_t size = static_cast<size_t>(status.st_size);
  if (size == 0) return MappedFile(path, nullptr, 0, true);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) Fail(ErrorKind::kIo, "{}: {}", path, std::strerror(errno));
  return MappedFile(path, static_cast<const uint8_t*>(data), size, true);
}

MappedFile MappedFile::FromBytes(std::string name, std::span<const uint8_t> bytes) {
  if (bytes.empty()) return MappedFile(std::move(name), nullptr, 0, false);
  auto* copy = static_cast<uint8_t*>(::operator new(bytes.size(), kCopyAlignment));
  std::memcpy(copy, bytes.data(), bytes.size());
  return MappedFile(std::move(name), copy, bytes.size(), false);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : name_(std::move(other.name_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      is_file_(other.is_file_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(is_file_, other.is_file_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  if (is_file_) {
    munmap(const_cast<uint8_t*>(data_), size_);
  } else {
    ::operator delete(const_cast<uint8_t*>(data_), kCopyAlignment);
  }
}

void MappedFile::ReleasePages(std::span<const uint8_t> range) const {
  if (!is_file_ || range.empty()) return;
  const size_t page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t first = static_cast<size_t>(range.data() - data_);
  const size_t begin = (first + page_bytes - 1) / page_bytes * page_bytes;
  const size_t end = (first + range.size()) / page_bytes * page_bytes;
  // The last page of the file may be partial; nothing else can lie in it after the range.
  const size_t file_end = first + range.size() == size_ ? size_ : end;
  if (begin >= file_end) return;
  madvise(const_cast<uint8_t*>(data_) + begin, file_end - begin, MADV_DONTNEED);
}

}  // namespace flashinfer::engine
