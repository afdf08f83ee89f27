// SPDX-License-Identifier: Apache-2.0
// Parses and renders any chat template.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "engine/chat_template.h"
#include "flashinfer/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using flashinfer::engine::ChatTemplate;
  using flashinfer::engine::Segment;
  static const flashinfer::engine::ChatInput chat = {
      .messages = {{"system", " be\xC3\xA9 "}, {"user", "<a> \xFF b\n"}, {"assistant", "x,y"}},
      .bos_token = "<s>",
      .eos_token = "</s>"};
  try {
    const ChatTemplate chat_template(std::string(reinterpret_cast<const char*>(bytes), size));
    const Segment* previous = nullptr;
    const auto segments = chat_template.Render(chat);
    for (const Segment& segment : segments) {
      if (segment.text.empty()) std::abort();
      if (previous != nullptr && previous->special_tokens == segment.special_tokens) std::abort();
      previous = &segment;
    }
  } catch (const flashinfer::Error&) {
    // Refused in words, as it should be.
  }
  return 0;
}
