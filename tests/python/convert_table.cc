// SPDX-License-Identifier: Apache-2.0
// Prints conversions for convert_test.py: `decode FORMAT CODE FLOAT` for every code, and `encode
// FORMAT FLOAT CODE` for the values given on standard input; numbers are the bits in hexadecimal.
#include <cinttypes>
#include <cstdio>

#include "core/convert.h"

namespace flashinfer {
namespace {

template <class T>
void Decode(const char* name, uint32_t num_codes) {
  for (uint32_t code = 0; code < num_codes; ++code) {
    const T narrow{static_cast<decltype(T::bits)>(code)};
    std::printf("decode %s %x %x\n", name, code, std::bit_cast<uint32_t>(ToFloat(narrow)));
  }
}

template <class T>
void Encode(const char* name, uint32_t bits) {
  std::printf("encode %s %x %x\n", name, bits, FromFloat<T>(std::bit_cast<float>(bits)).bits);
}

}  // namespace
}  // namespace flashinfer

int main() {
  using namespace flashinfer;
  Decode<F16>("f16", 65536);
  Decode<BF16>("bf16", 65536);
  Decode<E4M3>("e4m3", 256);
  Decode<E5M2>("e5m2", 256);
  Decode<E2M1>("e2m1", 16);
  Decode<E8M0>("e8m0", 256);
  uint32_t bits = 0;
  while (std::scanf("%" SCNx32, &bits) == 1) {
    Encode<F16>("f16", bits);
    Encode<BF16>("bf16", bits);
    Encode<E4M3>("e4m3", bits);
    Encode<E5M2>("e5m2", bits);
    Encode<E2M1>("e2m1", bits);
  }
}
