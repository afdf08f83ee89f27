// SPDX-License-Identifier: Apache-2.0
// Where tests find files that are no part of the project; a test skips when one is missing.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace flashinfer::test {

/// The value of an environment variable, or `fallback` when it is unset or empty.
inline std::string EnvOr(const char* name, const std::string& fallback) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : fallback;
}

/// A file of the test data folder: FLASHINFER_TEST_DATA, else ../shared/data beside the sources.
inline std::filesystem::path DataFile(const std::string& name) {
  const std::string beside = EnvOr("FLASHINFER_SOURCE_DIR", ".") + "/../shared/data";
  return std::filesystem::path(EnvOr("FLASHINFER_TEST_DATA", beside)) / name;
}

/// The demo's model: FLASHINFER_TEST_MODEL, else where `make demo` keeps it.
inline std::filesystem::path ModelFile() {
  const std::string cache = EnvOr("XDG_CACHE_HOME", EnvOr("HOME", ".") + "/.cache");
  return EnvOr("FLASHINFER_TEST_MODEL",
               cache + "/flashinfer/models/SmolLM2-135M-Instruct.Q4_1.gguf");
}

inline std::string ReadWholeFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void WriteTextFile(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  ASSERT_TRUE(file.flush()) << path;
}

}  // namespace flashinfer::test

/// Skips the test, saying why, unless the file at `path` is there.
#define FLASHINFER_SKIP_WITHOUT(path)            \
  if (!std::filesystem::is_regular_file((path))) \
  GTEST_SKIP() << "no file " << (path) << "; see FLASHINFER_TEST_DATA and FLASHINFER_TEST_MODEL"
