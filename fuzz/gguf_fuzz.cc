// SPDX-License-Identifier: Apache-2.0
// Opens any bytes as a GGUF file, reads every tensor's ends and looks keys up as every type.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "engine/gguf.h"
#include "flashinfer/error.h"

namespace flashinfer::engine {
namespace {

/// Keys of the seeds, so that mutated values under them are read.
constexpr std::string_view kKeys[] = {
    "general.architecture", "general.alignment", "k", "f", "b", "s", "strings", "ints", "floats"};

template <class LookUp>
void Try(LookUp&& look_up) {
  try {
    look_up();
  } catch (const Error&) {
    // Refused in words, as it should be.
  }
}

void LookUpAll(const GgufFile& file) {
  for (const std::string_view key : kKeys) {
    Try([&] { file.GetInt(key); });
    Try([&] { file.GetFloat(key); });
    Try([&] { file.GetBool(key, false); });
    Try([&] { file.GetString(key); });
    Try([&] { file.GetInts(key); });
    Try([&] { file.GetFloats(key); });
    Try([&] {
      uint64_t num_bytes = 0;
      for (const std::string_view text : file.GetStrings(key)) {
        for (const char c : text) num_bytes += c != '\0';
      }
      if (num_bytes > 1 << 30) std::abort();
    });
  }
}

void ReadTensors(const GgufFile& file) {
  const uint8_t* volatile last = nullptr;
  for (const GgufTensor& tensor : file.tensors()) {
    if (file.FindTensor(tensor.name) != &tensor || tensor.bytes.empty()) std::abort();
    if (tensor.rows() < 1 || tensor.cols() < 1 || tensor.rows() > INT64_MAX / tensor.cols()) {
      std::abort();
    }
    if (tensor.bytes.front() + tensor.bytes.back() > 510) std::abort();
    last = &tensor.bytes.back();
  }
  (void)last;
}

}  // namespace
}  // namespace flashinfer::engine

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace flashinfer::engine;
  Try([&] {
    const GgufFile file = GgufFile::FromBytes("fuzz", {bytes, size});
    ReadTensors(file);
    LookUpAll(file);
  });
  return 0;
}
