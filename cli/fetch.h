// SPDX-License-Identifier: Apache-2.0
// Downloading a file by http, https or file URL.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace flashinfer::cli {

struct FetchOptions {
  int timeout_seconds = 30;  ///< without a byte
  /// Called now and then with bytes of the file so far, and in all (0 when unknown).
  std::function<void(int64_t done, int64_t total)> on_progress;
};

/// Appends to `path` what it lacks of the file at `url`: a part that is there is not fetched again,
/// unless the server cannot give parts. Throws kIo naming URL and reason, kUnsupported when there
/// is no libcurl; the part that arrived stays.
void Fetch(const std::string& url, const std::string& path, const FetchOptions& options);

}  // namespace flashinfer::cli
