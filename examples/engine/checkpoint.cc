// SPDX-License-Identifier: Apache-2.0
// Opening of model files by their kind.
#include "engine/checkpoint.h"

#include <filesystem>
#include <utility>

#include "engine/gguf_model.h"
#include "engine/llama2c.h"
#include "engine/read_error.h"

namespace flashinfer::engine {
namespace {

using Source = std::variant<GgufFile, MappedFile>;

std::unique_ptr<const Source> MakeSource(MappedFile file) {
  if (GgufFile::HasMagic(file.bytes())) {
    return std::make_unique<const Source>(GgufFile(std::move(file)));
  }
  return std::make_unique<const Source>(std::move(file));
}

}  // namespace

std::string_view Name(Architecture architecture) {
  constexpr std::string_view kNames[] = {"llama", "qwen2", "qwen3"};
  return kNames[static_cast<size_t>(architecture)];
}

Checkpoint::Checkpoint(MappedFile file) : source_(MakeSource(std::move(file))) {
  const GgufFile* gguf_file = gguf();
  content_ =
      gguf_file ? ReadGgufModel(*gguf_file) : ReadLlama2cModel(std::get<MappedFile>(*source_));
}

Checkpoint Checkpoint::Open(const std::string& path) { return Checkpoint(MappedFile::Open(path)); }

Checkpoint Checkpoint::FromBytes(std::string name, std::span<const uint8_t> bytes) {
  return Checkpoint(MappedFile::FromBytes(std::move(name), bytes));
}

std::string Checkpoint::FindTokenizerFile() const {
  const auto folder = std::filesystem::path(std::get<MappedFile>(*source_).name()).parent_path();
  const auto own = folder / fmt::format("tok{}.bin", config().vocab_size);
  const auto usual = folder / "tokenizer.bin";
  for (const auto& path : {own, usual}) {
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return path.string();
  }
  Fail(ErrorKind::kIo, "{}: its tokenizer is neither at {} nor at {}",
       std::get<MappedFile>(*source_).name(), own.string(), usual.string());
}

void Checkpoint::ReleasePages(const WeightView& weight) const {
  const int64_t num_bytes =
      weight.rows * (weight.cols / BlockSize(weight.format)) * BlockBytes(weight.format);
  const std::span<const uint8_t> range(static_cast<const uint8_t*>(weight.data),
                                       static_cast<size_t>(num_bytes));
  std::visit([&](const auto& source) { source.ReleasePages(range); }, *source_);
}

}  // namespace flashinfer::engine
