// SPDX-License-Identifier: Apache-2.0
// Reads and writes whole files.
#include "jit/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <system_error>

namespace flashinfer::jit {
namespace {

/// A descriptor that closes itself.
struct File {
  int fd;
  ~File() {
    if (fd >= 0) close(fd);
  }
};

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace

std::optional<std::string> ReadFile(const std::string& path) {
  const File file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat status {};
  if (file.fd < 0 || fstat(file.fd, &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = read(file.fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  bytes.resize(done);
  return bytes;
}

bool WriteFileAside(const std::string& path, std::string_view bytes) {
  static std::atomic<uint32_t> count{0};
  const std::string aside = fmt::format("{}.{}.{}.tmp", path, getpid(), count.fetch_add(1));
  bool is_written = false;
  {
    const File file{open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)};
    is_written = file.fd >= 0 && WriteAll(file.fd, bytes) && fsync(file.fd) == 0;
  }
  if (is_written && rename(aside.c_str(), path.c_str()) == 0) return true;
  const int error = errno;
  unlink(aside.c_str());
  errno = error;
  return false;
}

bool MakeFolders(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  errno = error.value();
  return !error;
}

}  // namespace flashinfer::jit
