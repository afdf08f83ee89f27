// SPDX-License-Identifier: Apache-2.0
// Values in the bytes of a GGUF file, whose bounds were checked.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "engine/gguf.h"

namespace flashinfer::engine {

inline constexpr uint32_t kNumGgufValueTypes = 13;

/// `uint8`, `string`, `array`, ….
std::string_view Name(GgufValueType type);

/// The element at `index`; it need not be aligned.
template <class T>
T LoadValue(std::span<const uint8_t> bytes, uint64_t index = 0) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

inline std::string_view AsText(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace flashinfer::engine
