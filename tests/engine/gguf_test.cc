// SPDX-License-Identifier: Apache-2.0
// GGUF files that the tests write: what is read back, and what is refused.
#include "engine/gguf.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>

#include "engine/error_matchers.h"
#include "support/gguf_writer.h"

namespace flashinfer::engine {
namespace {

using test::AppendNumber;
using test::AppendString;
using test::ExpectError;
using test::GgufWriter;
using ::testing::ElementsAre;

constexpr auto kBad = ErrorKind::kInvalidArgument;
constexpr uint32_t kF32 = 0;
constexpr uint32_t kQ4_0 = 2;

GgufFile Read(const GgufWriter& writer) { return GgufFile::FromBytes("x.gguf", writer.Bytes()); }

void ExpectRefused(ErrorKind kind, const std::string& words, const GgufWriter& writer) {
  ExpectError(kind, words, [&] { Read(writer); });
}

std::vector<float> Ramp(int64_t size) {
  std::vector<float> values(static_cast<size_t>(size));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return values;
}

TEST(Gguf, ReadsEveryKindOfValue) {
  GgufWriter writer;
  writer.Set("u32", uint32_t{4000000000});
  writer.Set("i32", int32_t{-5});
  writer.Set("u64", uint64_t{1} << 62);
  writer.Set("too big", std::numeric_limits<uint64_t>::max());
  writer.Set("f32", 0.5f);
  writer.Set("f64", 0.1);
  writer.Set("yes", true);
  writer.Set("text", "caf\xc3\xa9\n");
  writer.Set("strings", std::vector<std::string>{"a", "", "ccc"});
  writer.Set("ints", std::vector<int32_t>{1, -2});
  writer.Set("floats", std::vector<float>{1.5f, -2});
  writer.Set("empty", std::vector<float>{});
  const uint8_t minus_one[] = {255, 255};
  writer.SetRaw("u8", 0, std::span(minus_one, 1));
  writer.SetRaw("i8", 1, std::span(minus_one, 1));
  writer.SetRaw("u16", 2, minus_one);
  writer.SetRaw("i16", 3, minus_one);
  const GgufFile file = Read(writer);

  EXPECT_EQ(file.GetInt("u32"), 4000000000);
  EXPECT_EQ(file.GetInt("i32"), -5);
  EXPECT_EQ(file.GetInt("u64"), int64_t{1} << 62);
  EXPECT_EQ(file.GetInt("u8"), 255);
  EXPECT_EQ(file.GetInt("i8"), -1);
  EXPECT_EQ(file.GetInt("u16"), 65535);
  EXPECT_EQ(file.GetInt("i16"), -1);
  EXPECT_EQ(file.GetFloat("f32"), 0.5);
  EXPECT_EQ(file.GetFloat("f64"), 0.1);
  EXPECT_EQ(file.GetFloat("i32"), -5);
  EXPECT_TRUE(file.GetBool("yes", false));
  EXPECT_EQ(file.GetString("text"), "caf\xc3\xa9\n");
  EXPECT_THAT(file.GetStrings("strings"), ElementsAre("a", "", "ccc"));
  EXPECT_THAT(file.GetInts("ints"), ElementsAre(1, -2));
  EXPECT_THAT(file.GetFloats("floats"), ElementsAre(1.5f, -2.0f));
  EXPECT_TRUE(file.GetFloats("empty").empty());
  EXPECT_EQ(file.ArraySize("strings"), 3);
  EXPECT_EQ(file.ArraySize("text"), std::nullopt);
  ExpectError(kBad, "'too big' is uint64, an integer less than 2^63",
              [&] { file.GetInt("too big"); });
}

TEST(Gguf, LookUpsNameFileKeyAndType) {
  GgufWriter writer;
  writer.Set("text", "x");
  writer.Set("ints", std::vector<int32_t>{1});
  const GgufFile file = Read(writer);
  EXPECT_EQ(file.GetInt("none", 7), 7);
  EXPECT_EQ(file.GetFloat("none", 0.5), 0.5);
  EXPECT_EQ(file.GetString("none", "d"), "d");
  EXPECT_TRUE(file.GetBool("none", true));
  ExpectError(kBad, "x.gguf: has no 'none'", [&] { file.GetInt("none"); });
  ExpectError(kBad, "x.gguf: has no 'none'", [&] { file.GetStrings("none"); });
  ExpectError(kBad, "'text' is string, an integer", [&] { file.GetInt("text", 1); });
  ExpectError(kBad, "'text' is string, a number", [&] { file.GetFloat("text"); });
  ExpectError(kBad, "'text' is string, a bool", [&] { file.GetBool("text", true); });
  ExpectError(kBad, "'ints' is an array of int32, a string", [&] { file.GetString("ints"); });
  ExpectError(kBad, "'ints' is an array of int32, an integer", [&] { file.GetInt("ints"); });
  ExpectError(kBad, "an array of strings", [&] { file.GetStrings("ints"); });
  ExpectError(kBad, "an array of float32", [&] { file.GetFloats("ints"); });
  ExpectError(kBad, "an array of integers", [&] { file.GetInts("text"); });
}

TEST(Gguf, ReadsTensorsOfEveryAlignmentAndVersion) {
  for (const uint32_t alignment : {8u, 32u, 64u, 4096u}) {
    for (const uint32_t version : {2u, 3u}) {
      GgufWriter writer;
      writer.set_alignment(alignment);
      writer.set_version(version);
      writer.AddTensor("v", {5}, WeightFormat::kF32, Ramp(5));
      writer.AddTensor("m", {3, 32}, WeightFormat::kQ8_0, Ramp(96));
      writer.AddTensor("t", {2, 3, 4}, WeightFormat::kF32, Ramp(24));
      const GgufFile file = Read(writer);
      ASSERT_EQ(file.tensors().size(), 3u);
      const GgufTensor& v = *file.FindTensor("v");
      EXPECT_EQ(v.cols(), 5);
      EXPECT_EQ(v.rows(), 1);
      EXPECT_EQ(std::memcmp(v.bytes.data(), Ramp(5).data(), v.bytes.size()), 0);
      const GgufTensor& m = *file.FindTensor("m");
      EXPECT_EQ(m.type, GgmlType::kQ8_0);
      EXPECT_EQ(m.rows(), 3);
      EXPECT_EQ(m.cols(), 32);
      EXPECT_EQ(m.bytes.size(), 3u * 34);
      const GgufTensor& t = *file.FindTensor("t");
      EXPECT_THAT(t.shape, ElementsAre(2, 3, 4, 1));
      EXPECT_EQ(t.rows(), 6);
      EXPECT_EQ(file.FindTensor("w"), nullptr);
    }
  }
}

TEST(Gguf, EveryTruncationIsRefusedOrKeepsWhatItReads) {
  GgufWriter writer;
  writer.Set("key", "value");
  writer.Set("strings", std::vector<std::string>{"abc", "de"});
  writer.AddTensor("v", {40}, WeightFormat::kF32, Ramp(40));
  const std::vector<uint8_t> bytes = writer.Bytes();
  ASSERT_NO_THROW(GgufFile::FromBytes("x", bytes));
  for (size_t size = 0; size < bytes.size(); ++size) {
    ExpectError(kBad, "x: ", [&] { GgufFile::FromBytes("x", std::span(bytes).first(size)); });
  }
}

TEST(Gguf, AnyByteMayBeWrong) {
  GgufWriter writer;
  writer.Set("key", "value");
  writer.Set("floats", std::vector<float>{1, 2, 3});
  writer.AddTensor("v", {2, 32}, WeightFormat::kQ4_0, Ramp(64));
  const std::vector<uint8_t> bytes = writer.Bytes();
  int num_refused = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const uint8_t flip : {1, 0x80, 0xff}) {
      std::vector<uint8_t> wrong = bytes;
      wrong[i] = static_cast<uint8_t>(wrong[i] ^ flip);
      try {
        const GgufFile file = GgufFile::FromBytes("x", wrong);
        for (const GgufTensor& tensor : file.tensors()) {
          volatile uint8_t last = tensor.bytes.back();  // is within the buffer, or sanitizers speak
          (void)last;
        }
      } catch (const Error&) {
        ++num_refused;
      }
    }
  }
  EXPECT_GT(num_refused, 100);
}

TEST(Gguf, MagicAndVersion) {
  const auto with_head = [](std::string_view magic, uint32_t version) {
    GgufWriter writer;
    writer.set_version(version);
    std::vector<uint8_t> bytes = writer.Bytes();
    std::ranges::copy(magic, bytes.begin());
    return [bytes] { GgufFile::FromBytes("x", bytes); };
  };
  ExpectError(kBad, "begins with 'GGML'", with_head("GGML", 3));
  ExpectError(kBad, "begins with '\\x0a\\xff..'", with_head("\n\xff..", 3));
  ExpectError(ErrorKind::kUnsupported, "version 1, 2 and 3", with_head("GGUF", 1));
  ExpectError(kBad, "version 4, 2 and 3", with_head("GGUF", 4));
  ExpectError(ErrorKind::kUnsupported, "big-endian", with_head("GGUF", 3u << 24));
}

TEST(Gguf, AbsurdCountsAreRefusedBeforeMemoryIsTaken) {
  const uint64_t absurd[] = {1000, uint64_t{1} << 40, std::numeric_limits<uint64_t>::max()};
  for (const uint64_t count : absurd) {
    for (const size_t place : {8, 16}) {
      std::vector<uint8_t> bytes = GgufWriter().Bytes();
      std::memcpy(&bytes[place], &count, sizeof(count));
      ExpectError(kBad, "too many for its size", [&] { GgufFile::FromBytes("x", bytes); });
    }
    for (const uint32_t type : {0u, 6u, 8u, 12u}) {
      std::vector<uint8_t> array;
      AppendNumber(array, type);
      AppendNumber(array, count);
      GgufWriter writer;
      writer.SetRaw("array", 9, array);
      ExpectRefused(kBad, "'array' has " + std::to_string(count) + " elements", writer);
    }
    std::vector<uint8_t> text;
    AppendNumber(text, count);
    GgufWriter writer;
    writer.SetRaw("text", 8, text);
    ExpectRefused(kBad, "a string at byte", writer);
  }
}

TEST(Gguf, BadMetadataIsRefused) {
  const auto with_key = [](std::string_view key) {
    GgufWriter writer;
    writer.Set(key, 1u);
    return writer;
  };
  ExpectRefused(kBad, "a key at byte 24 is '\\xff\\xfe'", with_key("\xff\xfe"));
  ExpectRefused(kBad, "is 'a\\x0ab'", with_key("a\nb"));
  ExpectRefused(kBad, "is ''", with_key(""));
  ExpectRefused(kBad, "1 to 65535 bytes", with_key(std::string(65536, 'a')));
  ExpectRefused(kBad, "is '\\xc0\\x80'", with_key("\xc0\x80"));  // overlong

  GgufWriter twice;
  twice.Set("a", 1u);
  twice.Set("a", "x");
  ExpectRefused(kBad, "key 'a' occurs twice", twice);

  GgufWriter unknown;
  unknown.SetRaw("a", 13, {});
  ExpectRefused(kBad, "'a' has value type 13, 0 to 12", unknown);

  GgufWriter nested;
  std::vector<uint8_t> array;
  AppendNumber(array, uint32_t{9});
  AppendNumber(array, uint64_t{1});
  nested.SetRaw("a", 9, array);
  ExpectRefused(ErrorKind::kUnsupported, "'a' is an array of arrays", nested);

  GgufWriter bad_bool;
  const uint8_t two = 2;
  bad_bool.SetRaw("a", 7, std::span(&two, 1));
  ExpectRefused(kBad, "neither 0 nor 1", bad_bool);
}

TEST(Gguf, BadTensorsAreRefused) {
  const auto with = [](std::string_view name, const std::vector<int64_t>& shape, uint32_t type,
                       uint64_t offset) {
    GgufWriter writer;
    writer.AddTensor("first", {64}, WeightFormat::kF32, Ramp(64));
    writer.AddTensorInfo(name, shape, type, offset);
    return writer;
  };
  const int64_t huge = std::numeric_limits<int64_t>::max();
  ExpectRefused(kBad, "'t' needs 4 bytes at offset 256", with("t", {1}, kF32, 256));
  ExpectRefused(kBad, "'t' needs 260 bytes at offset 0", with("t", {65}, kF32, 0));
  ExpectRefused(kBad, "'first' and 't' overlap", with("t", {1}, kF32, 224));
  ExpectRefused(kBad, "overlap", with("t", {64}, kF32, 0));
  ExpectRefused(kBad, "offset 20, no multiple of the alignment 32", with("t", {1}, kF32, 20));
  ExpectRefused(kBad, "offset 18446744073709551584",
                with("t", {64}, kF32, std::numeric_limits<uint64_t>::max() - 31));
  ExpectRefused(kBad, "tensor 'first' occurs twice", with("first", {1}, kF32, 0));
  ExpectRefused(kBad, "less than 2^63", with("t", {huge, 2}, kF32, 0));
  ExpectRefused(kBad, "less than 2^63", with("t", {1 << 20, 1 << 20, 1 << 20, 8}, kF32, 0));
  ExpectRefused(kBad, "more than any file holds", with("t", {huge}, kF32, 0));
  ExpectRefused(kBad, "has dimension 0 of 0", with("t", {2, 0}, kF32, 0));
  ExpectRefused(kBad, "has dimension 1 of 18446744073709551615", with("t", {-1, 4}, kF32, 0));
  ExpectRefused(kBad, "has 0 dimensions, 1 to 4", with("t", {}, kF32, 0));
  ExpectRefused(kBad, "has 5 dimensions, 1 to 4", with("t", {1, 1, 1, 1, 1}, kF32, 0));
  ExpectRefused(kBad, "rows of 48 elements, Q4_0 comes in blocks of 32", with("t", {48}, kQ4_0, 0));
  ExpectRefused(ErrorKind::kUnsupported, "'t' has type 77", with("t", {1}, 77, 0));
  ExpectRefused(ErrorKind::kUnsupported, "'t' has type 4,", with("t", {32}, 4, 0));
}

TEST(Gguf, BadAlignmentsAreRefused) {
  for (const uint32_t alignment : {0u, 1u, 4u, 24u, 1u << 21}) {
    GgufWriter writer;
    writer.Set("general.alignment", alignment);
    ExpectRefused(kBad, "general.alignment is " + std::to_string(alignment), writer);
  }
  GgufWriter writer;
  writer.Set("general.alignment", "32");
  ExpectRefused(kBad, "'general.alignment' is string", writer);
}

TEST(Gguf, UnreadableFilesAreIoErrors) {
  ExpectError(ErrorKind::kIo, "/nowhere/x.gguf: No such file",
              [] { GgufFile::Open("/nowhere/x.gguf"); });
  ExpectError(ErrorKind::kIo, "is not a regular file", [] { GgufFile::Open("/"); });
}

/// Pages of [data, data + size) that are in memory for this process.
int64_t NumResidentPages(const uint8_t* data, size_t size) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(data) / page * page;
  const int pagemap = open("/proc/self/pagemap", O_RDONLY);
  int64_t num_resident = 0;
  for (uintptr_t at = begin; at < reinterpret_cast<uintptr_t>(data) + size; at += page) {
    uint64_t entry = 0;
    const off_t offset = static_cast<off_t>(at / page * sizeof(entry));
    if (pread(pagemap, &entry, sizeof(entry), offset) == sizeof(entry)) num_resident += entry >> 63;
  }
  close(pagemap);
  return num_resident;
}

TEST(Gguf, ReleasedPagesLeaveMemoryAndComeBack) {
  if (access("/proc/self/pagemap", R_OK) != 0) GTEST_SKIP() << "no /proc/self/pagemap here";
  const int64_t size = 1 << 16;
  GgufWriter writer;
  writer.AddTensor("a", {size}, WeightFormat::kF32, Ramp(size));
  writer.AddTensor("b", {size}, WeightFormat::kF32, Ramp(size));
  const auto path = std::filesystem::path(testing::TempDir()) / "release_pages.gguf";
  test::WriteWholeFile(path, writer.Bytes());
  GgufFile opened = GgufFile::Open(path.string());
  const GgufFile file = std::move(opened);
  const auto is_ramp = [&](const char* name) {
    return std::memcmp(file.FindTensor(name)->bytes.data(), Ramp(size).data(),
                       static_cast<size_t>(size) * 4) == 0;
  };
  EXPECT_TRUE(is_ramp("a"));
  EXPECT_TRUE(is_ramp("b"));
  const GgufTensor& a = *file.FindTensor("a");
  const GgufTensor& b = *file.FindTensor("b");
  const int64_t num_pages = NumResidentPages(b.bytes.data(), b.bytes.size());
  ASSERT_GE(num_pages, size * 4 / sysconf(_SC_PAGESIZE));
  file.ReleasePages(a);
  EXPECT_LE(NumResidentPages(a.bytes.data(), a.bytes.size()), 2);  // shared with neighbours
  EXPECT_EQ(NumResidentPages(b.bytes.data(), b.bytes.size()), num_pages);
  EXPECT_TRUE(is_ramp("a"));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace flashinfer::engine
