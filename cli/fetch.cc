// SPDX-License-Identifier: Apache-2.0
// Downloads through libcurl, opened when needed.
#include "fetch.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include <fmt/format.h>

#include "flashinfer/error.h"
#include "terminal.h"

namespace flashinfer::cli {
namespace {

// Numbers of libcurl's interface, which never change; declared here so that a build needs no
// headers of it.
constexpr int kWriteData = 10001;
constexpr int kUrl = 10002;
constexpr int kUserAgent = 10018;
constexpr int kProgressData = 10057;
constexpr int kWriteFunction = 20011;
constexpr int kProgressFunction = 20219;
constexpr int kResumeFrom = 30116;
constexpr int kLowSpeedLimit = 19;
constexpr int kLowSpeedTime = 20;
constexpr int kNoProgress = 43;
constexpr int kFailOnError = 45;
constexpr int kFollowLocation = 52;
constexpr int kConnectTimeout = 78;
constexpr int kNoSignal = 99;
constexpr int kProtocols = 181;
constexpr int kRedirectProtocols = 182;
constexpr int kResponseCode = 0x200002;
constexpr long kHttp = 1;
constexpr long kHttps = 2;
constexpr long kFile = 1 << 10;
constexpr int kHttpError = 22;
constexpr int kTimedOut = 28;
constexpr int kRangeError = 33;
constexpr int kAborted = 42;

struct Curl {
  void* (*curl_easy_init)() = nullptr;
  int (*curl_easy_setopt)(void*, int, ...) = nullptr;
  int (*curl_easy_perform)(void*) = nullptr;
  int (*curl_easy_getinfo)(void*, int, ...) = nullptr;
  void (*curl_easy_cleanup)(void*) = nullptr;
  const char* (*curl_easy_strerror)(int) = nullptr;
};

template <class Function>
bool Find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

Curl Open() {
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl-nss.so.4"}) {
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    Curl c;
    if (Find(library, "curl_easy_init", c.curl_easy_init) &&
        Find(library, "curl_easy_setopt", c.curl_easy_setopt) &&
        Find(library, "curl_easy_perform", c.curl_easy_perform) &&
        Find(library, "curl_easy_getinfo", c.curl_easy_getinfo) &&
        Find(library, "curl_easy_cleanup", c.curl_easy_cleanup) &&
        Find(library, "curl_easy_strerror", c.curl_easy_strerror)) {
      return c;
    }
  }
  throw Error(
      ErrorKind::kUnsupported,
      "downloads need libcurl.so.4, which cannot be opened; apt-get install libcurl4 has it");
}

struct Transfer {
  std::FILE* file;
  int64_t offset;
  const FetchOptions& options;
};

size_t OnBytes(char* bytes, size_t, size_t size, void* data) {
  return std::fwrite(bytes, 1, size, static_cast<Transfer*>(data)->file);
}

int OnProgress(void* data, long total, long done, long, long) {
  const Transfer& transfer = *static_cast<Transfer*>(data);
  if (transfer.options.on_progress) {
    transfer.options.on_progress(transfer.offset + done, total > 0 ? transfer.offset + total : 0);
  }
  return Interrupted() ? 1 : 0;
}

int64_t FileBytes(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? static_cast<int64_t>(status.st_size) : 0;
}

/// One request; libcurl's result. `response` is the HTTP status, 0 for files.
int Request(const Curl& curl, const std::string& url, Transfer& transfer, long& response) {
  void* request = curl.curl_easy_init();
  const auto set = [&](int option, auto value) { curl.curl_easy_setopt(request, option, value); };
  set(kUrl, url.c_str());
  set(kUserAgent, "flashinfer");
  set(kProtocols, kHttp | kHttps | kFile);
  set(kRedirectProtocols, kHttp | kHttps);
  set(kFollowLocation, 1L);
  set(kFailOnError, 1L);
  set(kNoSignal, 1L);
  set(kConnectTimeout, static_cast<long>(transfer.options.timeout_seconds));
  set(kLowSpeedLimit, 1L);
  set(kLowSpeedTime, static_cast<long>(transfer.options.timeout_seconds));
  set(kWriteFunction, OnBytes);
  set(kWriteData, &transfer);
  set(kNoProgress, 0L);
  set(kProgressFunction, OnProgress);
  set(kProgressData, &transfer);
  if (transfer.offset > 0) set(kResumeFrom, static_cast<long>(transfer.offset));
  const int result = curl.curl_easy_perform(request);
  curl.curl_easy_getinfo(request, kResponseCode, &response);
  curl.curl_easy_cleanup(request);
  return result;
}

std::string Reason(const Curl& curl, int result, long response, const FetchOptions& options) {
  if (result == kHttpError) return fmt::format("the server answered {}", response);
  if (result == kTimedOut) {
    return fmt::format("nothing came for {} s", options.timeout_seconds);
  }
  return curl.curl_easy_strerror(result);
}

}  // namespace

void Fetch(const std::string& url, const std::string& path, const FetchOptions& options) {
  static const Curl curl = Open();
  // Once more from the beginning when the server cannot give a part, or the part is no part of it.
  for (int64_t offset = FileBytes(path);; offset = 0) {
    std::FILE* file = std::fopen(path.c_str(), offset > 0 ? "abe" : "wbe");
    if (file == nullptr) throw Error(ErrorKind::kIo, path + ": cannot be written");
    Transfer transfer{.file = file, .offset = offset, .options = options};
    long response = 0;
    const int result = Request(curl, url, transfer, response);
    const bool is_written = std::fclose(file) == 0;
    if (result == 0 && is_written) return;
    if (offset > 0 && (result == kRangeError || response == 416)) continue;
    if (result == kAborted) throw Error(ErrorKind::kIo, url + ": was interrupted");
    throw Error(ErrorKind::kIo, fmt::format("{}: {}", url,
                                            result == 0 ? "the disk is full"
                                                        : Reason(curl, result, response, options)));
  }
}

}  // namespace flashinfer::cli
