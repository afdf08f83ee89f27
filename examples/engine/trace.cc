// SPDX-License-Identifier: Apache-2.0
// Reading of Mooncake's and Azure's traces, a line at a time.
#include "engine/trace.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <fstream>
#include <istream>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/read_error.h"

namespace flashinfer::engine {
namespace {

constexpr size_t kMaxLineBytes = 1 << 20;
constexpr int kMaxJsonDepth = 8;
constexpr int64_t kMaxLength = 1 << 30;  // tokens
constexpr double kMaxArrivalS = 1e9;     // about 30 years
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kAzureHeader = "TIMESTAMP,ContextTokens,GeneratedTokens";

enum class Format { kUnknown, kMooncake, kAzure };

/// What is wrong with a line; the reader adds file and line.
template <class... Args>
[[noreturn]] void FailField(fmt::format_string<Args...> format, Args&&... args) {
  Fail(ErrorKind::kInvalidArgument, format, std::forward<Args>(args)...);
}

int64_t CheckLength(std::string_view field, int64_t value, int64_t least) {
  if (value < least || value > kMaxLength) {
    FailField("{} is {}, {} to {} is accepted", field, value, least, kMaxLength);
  }
  return value;
}

// --- Mooncake ---

const nlohmann::json& Field(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) FailField("has no '{}'", name);
  return *found;
}

int64_t LengthField(const nlohmann::json& object, const char* name, int64_t least) {
  const nlohmann::json& value = Field(object, name);
  // An unsigned number beyond int64 would come out negative.
  if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<uint64_t>() >> 62)) {
    FailField("'{}' is no integer that fits", name);
  }
  return CheckLength(name, value.get<int64_t>(), least);
}

TraceRequest ParseMooncake(std::string_view line) {
  const auto check_depth = [](int depth, nlohmann::json::parse_event_t, const nlohmann::json&) {
    if (depth > kMaxJsonDepth) FailField("is nested more than {} deep", kMaxJsonDepth);
    return true;
  };
  const auto object = nlohmann::json::parse(line, check_depth, /*allow_exceptions=*/false);
  if (!object.is_object()) FailField("is no JSON object");
  TraceRequest request;
  const nlohmann::json& timestamp = Field(object, "timestamp");
  if (!timestamp.is_number()) FailField("'timestamp' is no number");
  request.arrival_s = timestamp.get<double>() / 1000;
  request.input_length = LengthField(object, "input_length", 1);
  request.output_length = LengthField(object, "output_length", 0);
  const auto hashes = object.find("hash_ids");
  if (hashes == object.end()) return request;
  if (!hashes->is_array()) FailField("'hash_ids' is no array");
  const size_t num_blocks =
      static_cast<size_t>((request.input_length - 1) / kMooncakeBlockSize + 1);
  if (hashes->size() > num_blocks) {
    FailField("'hash_ids' has {} elements, {} tokens of input are {} blocks of {}", hashes->size(),
              request.input_length, num_blocks, kMooncakeBlockSize);
  }
  for (const nlohmann::json& hash : *hashes) {
    if (!hash.is_number_unsigned()) FailField("'hash_ids' holds something else than whole numbers");
    request.prefix_hashes.push_back(hash.get<uint64_t>());
  }
  if (!request.prefix_hashes.empty()) request.block_size = kMooncakeBlockSize;
  return request;
}

// --- Azure ---

/// The number that all of `text` is.
int64_t ParseNumber(std::string_view field, std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    FailField("{} is {}, a whole number is accepted", field, Quoted(text));
  }
  return number;
}

/// Seconds of `YYYY-MM-DD HH:MM:SS`, maybe with a fraction of up to 9 digits and a UTC mark, since
/// 1970, split so that the fraction keeps its precision.
std::pair<int64_t, double> ParseTimestamp(std::string_view text) {
  constexpr std::string_view kPattern = "0000-00-00 00:00:00";
  const auto fail = [&] {
    FailField("TIMESTAMP is {}, 'YYYY-MM-DD HH:MM:SS' with a fraction is accepted", Quoted(text));
  };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (text.size() < kPattern.size()) fail();
  for (size_t i = 0; i < kPattern.size(); ++i) {
    if (kPattern[i] == '0' ? !is_digit(text[i]) : text[i] != kPattern[i]) fail();
  }
  const auto number = [&](size_t begin, size_t size) {
    return static_cast<int>(ParseNumber("TIMESTAMP", text.substr(begin, size)));
  };
  const std::chrono::year_month_day date{std::chrono::year(number(0, 4)),
                                         std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                         std::chrono::day(static_cast<unsigned>(number(8, 2)))};
  if (!date.ok() || number(11, 2) > 23 || number(14, 2) > 59 || number(17, 2) > 60) fail();
  const int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  const int64_t seconds = days * 86400 + number(11, 2) * 3600 + number(14, 2) * 60 + number(17, 2);
  double fraction = 0;
  std::string_view rest = text.substr(kPattern.size());
  if (rest.starts_with('.')) {
    const size_t end = std::min(rest.find_first_not_of("0123456789", 1), rest.size());
    if (end == 1 || end > 10) fail();
    fraction = static_cast<double>(ParseNumber("TIMESTAMP", rest.substr(1, end - 1))) /
               std::pow(10.0, static_cast<double>(end - 1));
    rest.remove_prefix(end);
  }
  if (!rest.empty() && rest != "Z" && rest != "+00:00") fail();
  return {seconds, fraction};
}

struct AzureRow {
  std::pair<int64_t, double> time;
  int64_t input_length;
  int64_t output_length;
};

AzureRow ParseAzure(std::string_view line) {
  const size_t first = line.find(',');
  const size_t second = first == line.npos ? line.npos : line.find(',', first + 1);
  if (second == line.npos || line.find(',', second + 1) != line.npos) {
    FailField("is {}, three fields are accepted", Quoted(line));
  }
  const auto length = [&](std::string_view field, std::string_view text, int64_t least) {
    return CheckLength(field, ParseNumber(field, text), least);
  };
  return {ParseTimestamp(line.substr(0, first)),
          length("ContextTokens", line.substr(first + 1, second - first - 1), 1),
          length("GeneratedTokens", line.substr(second + 1), 0)};
}

}  // namespace

struct TraceReader::Impl {
  std::string name;
  std::unique_ptr<std::istream> text;
  std::string line;
  int64_t line_number = 0;
  Format format = Format::kUnknown;
  std::optional<std::pair<int64_t, double>> azure_start;
  double last_arrival_s = 0;

  /// The next line that is not blank, without its end, in `line`.
  bool ReadLine() {
    while (true) {
      line.clear();
      ++line_number;
      int c = text->get();
      const bool is_end = c == std::istream::traits_type::eof();
      for (; c != std::istream::traits_type::eof() && c != '\n'; c = text->get()) {
        if (line.size() == kMaxLineBytes) FailField("is longer than {} bytes", kMaxLineBytes);
        line += static_cast<char>(c);
      }
      if (text->bad()) Fail(ErrorKind::kIo, "cannot be read");
      if (line.ends_with('\r')) line.pop_back();
      if (line_number == 1 && line.starts_with(kByteOrderMark))
        line.erase(0, kByteOrderMark.size());
      if (line.find_first_not_of(" \t") != line.npos) return true;
      if (is_end) return false;
    }
  }

  /// Takes the header, if it is one.
  bool IsHeader() {
    if (format != Format::kUnknown) return false;
    format = line == kAzureHeader ? Format::kAzure : Format::kMooncake;
    if (format == Format::kMooncake && line[line.find_first_not_of(" \t")] != '{') {
      FailField("is {}: neither a JSON object (Mooncake) nor '{}' (Azure)", Quoted(line),
                kAzureHeader);
    }
    return format == Format::kAzure;
  }

  TraceRequest Parse() {
    if (format == Format::kMooncake) return ParseMooncake(line);
    const AzureRow row = ParseAzure(line);
    if (!azure_start) azure_start = row.time;
    TraceRequest request;
    request.arrival_s = static_cast<double>(row.time.first - azure_start->first) +
                        (row.time.second - azure_start->second);
    request.input_length = row.input_length;
    request.output_length = row.output_length;
    return request;
  }

  std::optional<TraceRequest> Next() {
    if (!ReadLine() || (IsHeader() && !ReadLine())) return std::nullopt;
    TraceRequest request = Parse();
    if (!(request.arrival_s >= last_arrival_s) || request.arrival_s > kMaxArrivalS) {
      FailField("arrives at {} s, {} (the request before it) to {} is accepted", request.arrival_s,
                last_arrival_s, kMaxArrivalS);
    }
    last_arrival_s = request.arrival_s;
    return request;
  }
};

TraceReader TraceReader::Open(const std::string& path) {
  // A folder opens, and then reads as nothing.
  auto file = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!*file || (file->peek(), file->bad())) Fail(ErrorKind::kIo, "{}: cannot be read", path);
  file->clear();
  return TraceReader(path, std::move(file));
}

TraceReader::TraceReader(std::string name, std::unique_ptr<std::istream> text)
    : impl_(std::make_unique<Impl>()) {
  impl_->name = std::move(name);
  impl_->text = std::move(text);
}
TraceReader::TraceReader(TraceReader&&) noexcept = default;
TraceReader& TraceReader::operator=(TraceReader&&) noexcept = default;
TraceReader::~TraceReader() = default;

std::optional<TraceRequest> TraceReader::Next() {
  try {
    return impl_->Next();
  } catch (const Error& error) {
    Fail(error.kind(), "{}: line {} {}", impl_->name, impl_->line_number, error.what());
  }
}

}  // namespace flashinfer::engine
