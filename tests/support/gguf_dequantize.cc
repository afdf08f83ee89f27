// SPDX-License-Identifier: Apache-2.0
// Block by block dequantisation after the GGUF specification.
#include "support/gguf_dequantize.h"

#include <cstring>

#include "core/convert.h"

namespace flashinfer::test {
namespace {

double HalfAt(const uint8_t* p) {
  uint16_t bits = 0;
  std::memcpy(&bits, p, 2);
  return ToFloat(F16{bits});
}

void PutHalf(uint8_t* p, double value) {
  const uint16_t bits = FromFloat<F16>(static_cast<float>(value)).bits;
  std::memcpy(p, &bits, 2);
}

void BlockQ4K(const uint8_t* b, double* out) {
  const double d = HalfAt(b);
  const double dmin = HalfAt(b + 2);
  const uint8_t* packed = b + 4;
  for (int sub = 0; sub < 8; ++sub) {
    int scale = 0;
    int min = 0;
    if (sub < 4) {
      scale = packed[sub] % 64;
      min = packed[sub + 4] % 64;
    } else {
      scale = packed[sub + 4] % 16 + packed[sub - 4] / 64 * 16;
      min = packed[sub + 4] / 16 + packed[sub] / 64 * 16;
    }
    for (int i = 0; i < 32; ++i) {
      const int byte = b[16 + sub / 2 * 32 + i];
      const int q = sub % 2 == 0 ? byte % 16 : byte / 16;
      out[sub * 32 + i] = d * scale * q - dmin * min;
    }
  }
}

void BlockQ6K(const uint8_t* b, double* out) {
  const double d = HalfAt(b + 208);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128;
    const int within = i % 128;
    const int low_byte = b[half * 64 + within % 64];
    const int low = within < 64 ? low_byte % 16 : low_byte / 16;
    const int high = b[128 + half * 32 + within % 32] >> (within / 32 * 2) & 3;
    const int scale = static_cast<int8_t>(b[192 + i / 16]);
    out[i] = d * scale * (low + 16 * high - 32);
  }
}

void Block(WeightFormat format, const uint8_t* b, double* out) {
  switch (format) {
    case WeightFormat::kF32: {
      float value = 0;
      std::memcpy(&value, b, 4);
      out[0] = value;
      break;
    }
    case WeightFormat::kF16:
      out[0] = HalfAt(b);
      break;
    case WeightFormat::kBF16: {
      uint16_t bits = 0;
      std::memcpy(&bits, b, 2);
      out[0] = ToFloat(BF16{bits});
      break;
    }
    case WeightFormat::kQ4_0:
      for (int i = 0; i < 32; ++i) {
        const int q = i < 16 ? b[2 + i] % 16 : b[2 + i - 16] / 16;
        out[i] = HalfAt(b) * (q - 8);
      }
      break;
    case WeightFormat::kQ4_1:
      for (int i = 0; i < 32; ++i) {
        const int q = i < 16 ? b[4 + i] % 16 : b[4 + i - 16] / 16;
        out[i] = HalfAt(b) * q + HalfAt(b + 2);
      }
      break;
    case WeightFormat::kQ8_0:
      for (int i = 0; i < 32; ++i) out[i] = HalfAt(b) * static_cast<int8_t>(b[2 + i]);
      break;
    case WeightFormat::kQ4_K:
      BlockQ4K(b, out);
      break;
    case WeightFormat::kQ6_K:
      BlockQ6K(b, out);
      break;
  }
}

}  // namespace

std::vector<uint8_t> RandomWeight(WeightFormat format, int64_t rows, int64_t cols,
                                  std::mt19937_64& rng) {
  const int64_t num_blocks = rows * cols / BlockSize(format);
  const int64_t bytes = BlockBytes(format);
  std::vector<uint8_t> data(static_cast<size_t>(num_blocks * bytes));
  for (uint8_t& byte : data) byte = static_cast<uint8_t>(rng());
  std::normal_distribution<double> normal(0.0, 1.0);
  for (int64_t i = 0; i < num_blocks; ++i) {
    uint8_t* b = data.data() + i * bytes;
    switch (format) {
      case WeightFormat::kF32: {
        const float value = static_cast<float>(normal(rng) * 0.05);
        std::memcpy(b, &value, 4);
        break;
      }
      case WeightFormat::kF16:
        PutHalf(b, normal(rng) * 0.05);
        break;
      case WeightFormat::kBF16: {
        const uint16_t bits = FromFloat<BF16>(static_cast<float>(normal(rng) * 0.05)).bits;
        std::memcpy(b, &bits, 2);
        break;
      }
      case WeightFormat::kQ4_0:
        PutHalf(b, normal(rng) * 0.01);
        break;
      case WeightFormat::kQ4_1:
        PutHalf(b, normal(rng) * 0.01);
        PutHalf(b + 2, normal(rng) * 0.05);
        break;
      case WeightFormat::kQ8_0:
        PutHalf(b, normal(rng) * 0.001);
        break;
      case WeightFormat::kQ4_K:
        PutHalf(b, normal(rng) * 0.0003);
        PutHalf(b + 2, normal(rng) * 0.001);
        break;
      case WeightFormat::kQ6_K:
        PutHalf(b + 208, normal(rng) * 0.00003);
        break;
    }
  }
  return data;
}

std::vector<double> Dequantize(const WeightView& weight) {
  const int64_t size = BlockSize(weight.format);
  std::vector<double> values(static_cast<size_t>(weight.rows * weight.cols));
  for (int64_t i = 0; i < weight.rows * weight.cols / size; ++i) {
    Block(weight.format, static_cast<const uint8_t*>(weight.data) + i * BlockBytes(weight.format),
          values.data() + i * size);
  }
  return values;
}

}  // namespace flashinfer::test
