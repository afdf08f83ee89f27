// SPDX-License-Identifier: Apache-2.0
// GGUF's block formats, written down one value at a time.
#include "support/gguf_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

#include "core/convert.h"

namespace flashinfer::test {
namespace {

double LoadF16(const uint8_t* bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  return ToFloat(F16{bits});
}

/// Stores `value` and returns what was stored.
double StoreF16(uint8_t* bytes, double value) {
  const uint16_t bits = FromFloat<F16>(static_cast<float>(value)).bits;
  std::memcpy(bytes, &bits, sizeof(bits));
  return LoadF16(bytes);
}

/// Nearest whole number of `steps` in value, within 0..max; 0 when the step is 0.
int Round(double value, double step, int max) {
  if (step == 0) return 0;
  return static_cast<int>(std::clamp(std::nearbyint(value / step), 0.0, static_cast<double>(max)));
}

/// Q4_0: f16 d; 16 bytes with value i in the low and i + 16 in the high nibble; d (q - 8).
struct Q4_0 {
  static constexpr BlockShape kShape{32, 18};
  static void Decode(const uint8_t* block, double* values) {
    const double d = LoadF16(block);
    for (int i = 0; i < 16; ++i) {
      values[i] = d * ((block[2 + i] & 15) - 8);
      values[i + 16] = d * ((block[2 + i] >> 4) - 8);
    }
  }
  static void Encode(const float* values, uint8_t* block) {
    const float furthest = *std::max_element(
        values, values + 32, [](float a, float b) { return std::abs(a) < std::abs(b); });
    const double d = StoreF16(block, furthest / -8.0);
    const auto code = [&](int i) { return Round(values[i] + 8 * d, d, 15); };
    for (int i = 0; i < 16; ++i) block[2 + i] = static_cast<uint8_t>(code(i) | code(i + 16) << 4);
  }
};

/// Q4_1: f16 d, f16 m; nibbles as Q4_0; d q + m.
struct Q4_1 {
  static constexpr BlockShape kShape{32, 20};
  static void Decode(const uint8_t* block, double* values) {
    const double d = LoadF16(block);
    const double m = LoadF16(block + 2);
    for (int i = 0; i < 16; ++i) {
      values[i] = d * (block[4 + i] & 15) + m;
      values[i + 16] = d * (block[4 + i] >> 4) + m;
    }
  }
  static void Encode(const float* values, uint8_t* block) {
    const auto [low, high] = std::minmax_element(values, values + 32);
    const double d = StoreF16(block, (double{*high} - *low) / 15);
    const double m = StoreF16(block + 2, *low);
    const auto code = [&](int i) { return Round(values[i] - m, d, 15); };
    for (int i = 0; i < 16; ++i) block[4 + i] = static_cast<uint8_t>(code(i) | code(i + 16) << 4);
  }
};

/// Q8_0: f16 d; 32 int8; d q.
struct Q8_0 {
  static constexpr BlockShape kShape{32, 34};
  static void Decode(const uint8_t* block, double* values) {
    const double d = LoadF16(block);
    for (int i = 0; i < 32; ++i) values[i] = d * static_cast<int8_t>(block[2 + i]);
  }
  static void Encode(const float* values, uint8_t* block) {
    double largest = 0;
    for (int i = 0; i < 32; ++i) largest = std::max(largest, std::abs(double{values[i]}));
    const double d = StoreF16(block, largest / 127);
    for (int i = 0; i < 32; ++i) {
      block[2 + i] = static_cast<uint8_t>(Round(values[i] + 127 * d, d, 254) - (d == 0 ? 0 : 127));
    }
  }
};

/// Q4_K: f16 d, f16 m; 12 bytes with a 6-bit scale and a 6-bit minimum for each of 8 groups of 32
/// values; 128 bytes of nibbles, where 32 bytes hold two groups: the even in the low nibbles, the
/// odd in the high ones; d scale q - m minimum.
struct Q4_K {
  static constexpr BlockShape kShape{256, 144};
  static constexpr int kNibbles = 16;

  static std::array<int, 2> ScaleAndMinimum(const uint8_t* packed, int group) {
    if (group < 4) return {packed[group] & 63, packed[group + 4] & 63};
    return {(packed[group + 4] & 15) | (packed[group - 4] >> 6) << 4,
            (packed[group + 4] >> 4) | (packed[group] >> 6) << 4};
  }
  static void StoreScaleAndMinimum(uint8_t* packed, int group, int scale, int minimum) {
    if (group < 4) {
      packed[group] = static_cast<uint8_t>((packed[group] & 192) | scale);
      packed[group + 4] = static_cast<uint8_t>((packed[group + 4] & 192) | minimum);
      return;
    }
    packed[group + 4] = static_cast<uint8_t>((scale & 15) | (minimum & 15) << 4);
    packed[group - 4] = static_cast<uint8_t>((packed[group - 4] & 63) | (scale >> 4) << 6);
    packed[group] = static_cast<uint8_t>((packed[group] & 63) | (minimum >> 4) << 6);
  }

  static void Decode(const uint8_t* block, double* values) {
    const double d = LoadF16(block);
    const double m = LoadF16(block + 2);
    for (int i = 0; i < 256; ++i) {
      const int group = i / 32;
      const auto [scale, minimum] = ScaleAndMinimum(block + 4, group);
      const uint8_t byte = block[kNibbles + group / 2 * 32 + i % 32];
      values[i] = d * scale * (group % 2 == 0 ? byte & 15 : byte >> 4) - m * minimum;
    }
  }
  static void Encode(const float* values, uint8_t* block) {
    std::array<double, 8> step{}, minimum{};
    for (size_t group = 0; group < 8; ++group) {
      const auto [low, high] = std::minmax_element(values + group * 32, values + group * 32 + 32);
      minimum[group] = std::max(0.0, -double{*low});
      step[group] = std::max(0.0, (*high + minimum[group]) / 15);
    }
    const double d = StoreF16(block, *std::ranges::max_element(step) / 63);
    const double m = StoreF16(block + 2, *std::ranges::max_element(minimum) / 63);
    for (int group = 0; group < 8; ++group) {
      const size_t g = static_cast<size_t>(group);
      StoreScaleAndMinimum(block + 4, group, Round(step[g], d, 63), Round(minimum[g], m, 63));
    }
    for (int i = 0; i < 256; ++i) {
      const int group = i / 32;
      const auto [scale, low] = ScaleAndMinimum(block + 4, group);
      const int code = Round(values[i] + m * low, d * scale, 15);
      uint8_t& byte = block[kNibbles + group / 2 * 32 + i % 32];
      byte = static_cast<uint8_t>(byte | (group % 2 == 0 ? code : code << 4));
    }
  }
};

/// Q6_K: 128 bytes of low nibbles, 64 bytes of upper pairs of bits, 16 int8 scales of 16 values
/// each, f16 d; d scale (q - 32). Of each half of 128 values, quarter k of 32 has its nibbles in
/// bytes (k % 2) * 32 of the half's 64 (high nibbles from k = 2 on) and its pairs at bit 2 k.
struct Q6_K {
  static constexpr BlockShape kShape{256, 210};
  static constexpr int kUpper = 128, kScales = 192, kD = 208;

  struct Place {
    int nibble_byte, nibble_shift, upper_byte, upper_shift;
  };
  static Place PlaceOf(int i) {
    const int half = i / 128, quarter = i % 128 / 32, lane = i % 32;
    return {half * 64 + quarter % 2 * 32 + lane, quarter / 2 * 4, kUpper + half * 32 + lane,
            quarter * 2};
  }
  static double Step(const uint8_t* block, int i) {
    return LoadF16(block + kD) * static_cast<int8_t>(block[kScales + i / 16]);
  }

  static void Decode(const uint8_t* block, double* values) {
    for (int i = 0; i < 256; ++i) {
      const Place p = PlaceOf(i);
      const int low = block[p.nibble_byte] >> p.nibble_shift & 15;
      const int high = block[p.upper_byte] >> p.upper_shift & 3;
      values[i] = Step(block, i) * ((low | high << 4) - 32);
    }
  }
  static void Encode(const float* values, uint8_t* block) {
    std::array<double, 16> step{};
    for (int i = 0; i < 256; ++i) {
      double& s = step[static_cast<size_t>(i / 16)];
      s = std::max(s, std::abs(double{values[i]}) / 31);
    }
    const double d = StoreF16(block + kD, *std::ranges::max_element(step) / 127);
    for (size_t s = 0; s < step.size(); ++s) {
      block[kScales + s] = static_cast<uint8_t>(Round(step[s], d, 127));
    }
    for (int i = 0; i < 256; ++i) {
      const Place p = PlaceOf(i);
      const double own_step = Step(block, i);
      const int code = own_step == 0 ? 32 : Round(values[i] + 32 * own_step, own_step, 63);
      block[p.nibble_byte] |= static_cast<uint8_t>((code & 15) << p.nibble_shift);
      block[p.upper_byte] |= static_cast<uint8_t>(code >> 4 << p.upper_shift);
    }
  }
};

/// Q5_0: f16 d; 4 bytes with the fifth bit of value i at bit i; nibbles as Q4_0; d (q - 16).
/// Q5_1: f16 m after d; d q + m.
template <bool kHasMinimum>
struct Q5 {
  static constexpr int kFifth = kHasMinimum ? 4 : 2;
  static constexpr BlockShape kShape{32, kFifth + 20};
  static int Code(const uint8_t* block, int i) {
    const int byte = block[kFifth + 4 + i % 16];
    return (i < 16 ? byte & 15 : byte >> 4) + 16 * (block[kFifth + i / 8] >> i % 8 & 1);
  }
  static void Decode(const uint8_t* block, double* values) {
    const double d = LoadF16(block);
    const double m = kHasMinimum ? LoadF16(block + 2) : -16 * d;
    for (int i = 0; i < 32; ++i) values[i] = d * Code(block, i) + m;
  }
  static void Encode(const float* values, uint8_t* block) {
    const auto [low, high] = std::minmax_element(values, values + 32);
    const double furthest = -double{*low} > *high ? *low : *high;
    const double d = StoreF16(block, kHasMinimum ? (double{*high} - *low) / 31 : furthest / -16.0);
    const double m = kHasMinimum ? StoreF16(block + 2, *low) : -16 * d;
    for (int i = 0; i < 32; ++i) {
      const int code = Round(values[i] - m, d, 31);
      block[kFifth + 4 + i % 16] |= static_cast<uint8_t>((code & 15) << (i < 16 ? 0 : 4));
      block[kFifth + i / 8] |= static_cast<uint8_t>(code >> 4 << i % 8);
    }
  }
};

/// Q5_K: as Q4_K, with 32 bytes before the nibbles: bit g of byte i is the fifth bit of value i of
/// group g.
struct Q5_K {
  static constexpr BlockShape kShape{256, 176};
  static constexpr int kFifth = 16, kNibbles = 48;
  static void Decode(const uint8_t* block, double* values) {
    const double d = LoadF16(block);
    const double m = LoadF16(block + 2);
    for (int i = 0; i < 256; ++i) {
      const int group = i / 32;
      const auto [scale, minimum] = Q4_K::ScaleAndMinimum(block + 4, group);
      const uint8_t byte = block[kNibbles + group / 2 * 32 + i % 32];
      const int code =
          (group % 2 == 0 ? byte & 15 : byte >> 4) + 16 * (block[kFifth + i % 32] >> group & 1);
      values[i] = d * scale * code - m * minimum;
    }
  }
  static void Encode(const float* values, uint8_t* block) {
    // The scales of four bits serve, halved: the grid is twice as fine.
    std::array<uint8_t, Q4_K::kShape.num_bytes> four{};
    Q4_K::Encode(values, four.data());
    std::copy_n(four.data(), Q4_K::kNibbles, block);
    const double d = StoreF16(block, LoadF16(block) * 15 / 31);
    const double m = LoadF16(block + 2);
    for (int i = 0; i < 256; ++i) {
      const int group = i / 32;
      const auto [scale, low] = Q4_K::ScaleAndMinimum(block + 4, group);
      const int code = Round(values[i] + m * low, d * scale, 31);
      uint8_t& byte = block[kNibbles + group / 2 * 32 + i % 32];
      byte = static_cast<uint8_t>(byte | (code & 15) << (group % 2 == 0 ? 0 : 4));
      uint8_t& fifth = block[kFifth + i % 32];
      fifth = static_cast<uint8_t>(fifth | code >> 4 << group);
    }
  }
};

/// MXFP4: exponent e of 2^(e - 127), biased; nibbles as Q4_0 of e2m1: sign, two bits of exponent,
/// one of mantissa.
struct MXFP4 {
  static constexpr BlockShape kShape{32, 17};
  static double E2m1(int code) {
    const int exponent = code >> 1 & 3, mantissa = code & 1;
    const double size =
        exponent == 0 ? mantissa * 0.5 : std::ldexp(1 + mantissa * 0.5, exponent - 1);
    return code & 8 ? -size : size;
  }
  static void Decode(const uint8_t* block, double* values) {
    for (int i = 0; i < 32; ++i) {
      const int code = i < 16 ? block[1 + i] & 15 : block[1 + i - 16] >> 4;
      values[i] = std::ldexp(E2m1(code), block[0] - 127);
    }
  }
  static void Encode(const float* values, uint8_t* block) {
    double largest = 0;
    for (int i = 0; i < 32; ++i) largest = std::max(largest, std::abs(double{values[i]}));
    const int exponent = largest == 0 ? 0 : static_cast<int>(std::ceil(std::log2(largest / 6)));
    block[0] = static_cast<uint8_t>(std::clamp(exponent + 127, 0, 254));
    for (int i = 0; i < 32; ++i) {
      const double value = std::ldexp(double{values[i]}, 127 - block[0]);
      int code = 0;
      for (int c = 1; c < 16; ++c) {
        if (std::abs(E2m1(c) - value) < std::abs(E2m1(code) - value)) code = c;
      }
      block[1 + i % 16] |= static_cast<uint8_t>(code << (i < 16 ? 0 : 4));
    }
  }
};

template <class Stored>
struct Plain {
  static constexpr BlockShape kShape{1, sizeof(Stored)};
  static void Decode(const uint8_t* block, double* values) {
    Stored stored;
    std::memcpy(&stored, block, sizeof(stored));
    *values = ToFloat(stored);
  }
  static void Encode(const float* values, uint8_t* block) {
    const Stored stored = FromFloat<Stored>(*values);
    std::memcpy(block, &stored, sizeof(stored));
  }
};

/// Calls `visit` with the format's struct.
template <class Visit>
auto VisitFormat(WeightFormat format, Visit&& visit) {
  switch (format) {
    case WeightFormat::kF32:
      return visit(Plain<float>());
    case WeightFormat::kF16:
      return visit(Plain<F16>());
    case WeightFormat::kBF16:
      return visit(Plain<BF16>());
    case WeightFormat::kQ4_0:
      return visit(Q4_0());
    case WeightFormat::kQ4_1:
      return visit(Q4_1());
    case WeightFormat::kQ8_0:
      return visit(Q8_0());
    case WeightFormat::kQ4_K:
      return visit(Q4_K());
    case WeightFormat::kQ6_K:
      return visit(Q6_K());
    case WeightFormat::kQ5_0:
      return visit(Q5<false>());
    case WeightFormat::kQ5_1:
      return visit(Q5<true>());
    case WeightFormat::kQ5_K:
      return visit(Q5_K());
    case WeightFormat::kMXFP4:
      return visit(MXFP4());
  }
  throw std::invalid_argument("no such weight format");
}

/// Gives a block of random bits f16 scales of either sign that keep values of order 1.
void SetScales(WeightFormat format, uint8_t* block, std::mt19937_64& rng) {
  std::uniform_real_distribution<double> uniform(-1, 1);
  switch (format) {
    case WeightFormat::kQ4_0:
      StoreF16(block, uniform(rng) / 8);
      return;
    case WeightFormat::kQ4_1:
      StoreF16(block, uniform(rng) / 8);
      StoreF16(block + 2, uniform(rng));
      return;
    case WeightFormat::kQ8_0:
      StoreF16(block, uniform(rng) / 128);
      return;
    case WeightFormat::kQ4_K:
      StoreF16(block, uniform(rng) / 512);
      StoreF16(block + 2, uniform(rng) / 64);
      return;
    case WeightFormat::kQ6_K:
      StoreF16(block + Q6_K::kD, uniform(rng) / 4096);
      return;
    case WeightFormat::kQ5_0:
      StoreF16(block, uniform(rng) / 16);
      return;
    case WeightFormat::kQ5_1:
      StoreF16(block, uniform(rng) / 16);
      StoreF16(block + 2, uniform(rng));
      return;
    case WeightFormat::kQ5_K:
      StoreF16(block, uniform(rng) / 1024);
      StoreF16(block + 2, uniform(rng) / 64);
      return;
    case WeightFormat::kMXFP4:
      block[0] = static_cast<uint8_t>(124 + rng() % 3);
      return;
    default:
      return;
  }
}

}  // namespace

BlockShape ShapeOf(WeightFormat format) {
  return VisitFormat(format, [](auto block) { return decltype(block)::kShape; });
}

int64_t EncodedBytes(WeightFormat format, int64_t num_values) {
  const BlockShape shape = ShapeOf(format);
  if (num_values % shape.num_values != 0) {
    throw std::invalid_argument(std::to_string(num_values) + " values are no whole blocks of " +
                                std::to_string(shape.num_values));
  }
  return num_values / shape.num_values * shape.num_bytes;
}

std::vector<double> Dequantize(const WeightView& weight) {
  const int64_t num_values = weight.rows * weight.cols;
  const int64_t num_bytes = EncodedBytes(weight.format, num_values);
  std::vector<double> values(static_cast<size_t>(num_values));
  VisitFormat(weight.format, [&](auto block) {
    using Block = decltype(block);
    const auto* in = static_cast<const uint8_t*>(weight.data);
    double* out = values.data();
    for (const uint8_t* end = in + num_bytes; in < end; in += Block::kShape.num_bytes) {
      Block::Decode(in, out);
      out += Block::kShape.num_values;
    }
  });
  return values;
}

std::vector<uint8_t> Quantize(WeightFormat format, std::span<const float> values) {
  const int64_t num_values = static_cast<int64_t>(values.size());
  std::vector<uint8_t> bytes(static_cast<size_t>(EncodedBytes(format, num_values)));
  VisitFormat(format, [&](auto block) {
    using Block = decltype(block);
    uint8_t* out = bytes.data();
    for (int64_t i = 0; i < num_values; i += Block::kShape.num_values) {
      Block::Encode(values.data() + i, out);
      out += Block::kShape.num_bytes;
    }
  });
  return bytes;
}

std::vector<uint8_t> RandomWeight(WeightFormat format, int64_t rows, int64_t cols,
                                  std::mt19937_64& rng) {
  const int64_t num_values = rows * cols;
  const BlockShape shape = ShapeOf(format);
  if (shape.num_values == 1) {
    std::vector<float> values(static_cast<size_t>(num_values));
    std::normal_distribution<float> normal;
    for (float& value : values) value = normal(rng);
    return Quantize(format, values);
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(EncodedBytes(format, num_values)));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng());
  for (auto block = bytes.begin(); block != bytes.end(); block += shape.num_bytes) {
    SetScales(format, &*block, rng);
  }
  return bytes;
}

}  // namespace flashinfer::test
