// SPDX-License-Identifier: Apache-2.0
// Opens models and encodes prompts for them.
#include "session.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include "engine/vocabulary.h"
#include "flashinfer/cpu.h"
#include "flashinfer/device.h"
#include "flashinfer/error.h"

namespace flashinfer::cli {

using engine::SpecialTokens;

std::string ReadTextFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  if (file && !std::filesystem::is_directory(path)) {
    text.assign(std::istreambuf_iterator<char>(file), {});
    if (!file.bad()) return text;
  } else if (file) {
    throw Error(ErrorKind::kIo, path + ": is a folder");
  }
  throw Error(ErrorKind::kIo, fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
}

Session::Session(const ModelOptions& options)
    : options_(options),
      model_name_(std::filesystem::path(options.path).filename().string()),
      checkpoint_(engine::Checkpoint::Open(options.path)),
      tokenizer_(engine::LoadTokenizer(*checkpoint_)) {
  if (const engine::GgufFile* file = checkpoint_->gguf()) {
    template_source_ = file->GetString("tokenizer.chat_template", "");
  }
}

std::vector<int32_t> Session::EncodeRaw(std::string_view text) const {
  engine::CheckUtf8("prompt", text);
  std::vector<int32_t> ids = tokenizer_->Encode(text, SpecialTokens::kParse);
  const engine::SpecialIds& special = tokenizer_->special_ids();
  if (special.add_bos && (ids.empty() || ids.front() != special.bos)) {
    ids.insert(ids.begin(), special.bos);
  }
  if (ids.empty()) throw Error(ErrorKind::kInvalidArgument, "prompt: is empty, expected some text");
  return ids;
}

std::vector<int32_t> Session::EncodeChat(const std::vector<engine::ChatMessage>& messages) {
  for (const engine::ChatMessage& message : messages) {
    const std::string_view name = message.role == "system" ? "system" : "prompt";
    engine::CheckUtf8(name, message.content);
    if (message.role == "user" && message.content.empty()) {
      throw Error(ErrorKind::kInvalidArgument, "prompt: is empty, expected some text");
    }
  }
  const engine::SpecialIds& special = tokenizer_->special_ids();
  const auto text = [&](int32_t id) {
    return id < 0 ? std::string() : std::string(tokenizer_->Decode(id));
  };
  try {
    if (!template_) template_.emplace(template_source_);
    return tokenizer_->Encode(template_->Render(
        {.messages = messages, .bos_token = text(special.bos), .eos_token = text(special.eos)}));
  } catch (const Error& error) {
    throw Error(error.kind(),
                fmt::format("chat template: {}; --raw prompts without it", error.what()));
  }
}

engine::Engine& Session::StartEngine() {
  if (options_.threads > 0) SetNumThreads(options_.threads);
  engine::EngineOptions options;
  options.context_length = options_.context;
  if (options_.kv_mib > std::numeric_limits<int64_t>::max() >> 20) {
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("kv-mib: is {}, which no machine has", options_.kv_mib));
  }
  options.kv_bytes = options_.kv_mib << 20;
  options.device = ParseDevice(options_.device);
  engine_.emplace(*checkpoint_, options);
  checkpoint_.reset();
  return *engine_;
}

}  // namespace flashinfer::cli
