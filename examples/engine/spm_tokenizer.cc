// SPDX-License-Identifier: Apache-2.0
// SentencePiece BPE: characters, or their bytes, merged by the best score.
#include "engine/spm_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "engine/read_error.h"

namespace flashinfer::engine {
namespace {

constexpr int32_t kUnknown = 0;
constexpr int32_t kBos = 1;
constexpr int32_t kEos = 2;
constexpr int32_t kFirstByte = 3;
constexpr int32_t kFirstText = kFirstByte + 256;

/// Takes little-endian values off the front of a file.
class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  bool AtEnd() const { return position_ == file_.size(); }
  size_t position() const { return position_; }

  template <class T>
  T Take(std::string_view what) {
    T value;
    std::memcpy(&value, TakeBytes(sizeof(T), what).data(), sizeof(T));
    return value;
  }

  std::string_view TakeBytes(size_t num_bytes, std::string_view what) {
    CheckInput(num_bytes <= file_.size() - position_,
               "tokenizer file: the {} at byte {} needs {} bytes, {} are left", what, position_,
               num_bytes, file_.size() - position_);
    position_ += num_bytes;
    return file_.substr(position_ - num_bytes, num_bytes);
  }

 private:
  std::string_view file_;
  size_t position_ = 0;
};

/// Length of the character at `position`: its lead byte and what continues it, at most 4 bytes.
size_t CharBytes(std::string_view text, size_t position) {
  size_t length = 1;
  while (length < 4 && position + length < text.size() &&
         (static_cast<unsigned char>(text[position + length]) & 0xC0) == 0x80)
    ++length;
  return length;
}

}  // namespace

SpmVocabulary ParseSpmVocabulary(std::string_view file, int32_t vocab_size) {
  Reader reader(file);
  const auto max_length = reader.Take<int32_t>("maximal token length");
  CheckInput(max_length > 0, "tokenizer file: maximal token length is {}, it must be positive",
             max_length);
  SpmVocabulary vocabulary;
  while (vocab_size < 0 ? !reader.AtEnd() : std::ssize(vocabulary.tokens) < vocab_size) {
    const auto score = reader.Take<float>("score");
    CheckInput(std::isfinite(score), "tokenizer file: the score before byte {} is {}, not finite",
               reader.position(), score);
    const auto length = reader.Take<int32_t>("token length");
    CheckInput(length >= 0, "tokenizer file: the token length before byte {} is {}",
               reader.position(), length);
    vocabulary.scores.push_back(score);
    vocabulary.tokens.emplace_back(reader.TakeBytes(length, "token"));
  }
  return vocabulary;
}

struct SpmTokenizer::Impl {
  std::vector<std::string> token_bytes;
  std::vector<float> scores;
  std::unordered_map<std::string_view, int32_t> text_ids;  // neither special nor byte tokens
  size_t max_token_bytes = 0;
  SpecialIds special_ids{.bos = kBos, .eos = kEos, .add_bos = true, .end_ids = {kBos, kEos}};

  explicit Impl(SpmVocabulary vocabulary)
      : token_bytes(std::move(vocabulary.tokens)), scores(std::move(vocabulary.scores)) {
    CheckInput(std::ssize(token_bytes) >= kFirstText,
               "tokenizer vocabulary: has {} tokens, at least {} are needed (3 special, 256 bytes)",
               token_bytes.size(), kFirstText);
    CheckInput(scores.size() == token_bytes.size(),
               "tokenizer vocabulary: has {} scores, there are {} tokens", scores.size(),
               token_bytes.size());
    for (int32_t byte = 0; byte < 256; ++byte) {
      std::string& token = token_bytes[kFirstByte + byte];
      const std::string name = fmt::format("<0x{:02X}>", byte);
      CheckInput(token == name, "tokenizer vocabulary: token {} is {}, it must be {}",
                 kFirstByte + byte, Quoted(token), name);
      token.assign(1, static_cast<char>(byte));
    }
    text_ids.reserve(token_bytes.size());
    for (int32_t id = kFirstText; id < std::ssize(token_bytes); ++id) {
      text_ids.try_emplace(token_bytes[id], id);
      max_token_bytes = std::max(max_token_bytes, token_bytes[id].size());
    }
  }

  int32_t Find(std::string_view text) const {
    if (text.size() > max_token_bytes) return -1;
    const auto found = text_ids.find(text);
    return found == text_ids.end() ? -1 : found->second;
  }

  std::string_view BytesOf(int32_t id) const {
    CheckInput(id >= 0 && id < std::ssize(token_bytes),
               "token id: is {}, the vocabulary has {} tokens", id, token_bytes.size());
    return token_bytes[id];
  }

  /// `text` begins with the added space.
  std::vector<int32_t> Merge(std::string_view text) const;
};

namespace {

/// A token of the text so far, in a linked list.
struct Node {
  int32_t id;
  int32_t begin;  // of its bytes in the text
  int32_t num_bytes;
  int32_t previous;
  int32_t next;
};

struct Candidate {
  float score;
  int32_t left;  // node
  int32_t num_bytes;
  int32_t id;

  /// For a heap whose front is the highest score, of equals the leftmost.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score < b.score : a.left > b.left;
  }
};

}  // namespace

std::vector<int32_t> SpmTokenizer::Impl::Merge(std::string_view text) const {
  std::vector<Node> nodes;
  const auto append = [&](int32_t id, size_t begin, size_t num_bytes) {
    const auto i = static_cast<int32_t>(nodes.size());
    nodes.push_back(
        {id, static_cast<int32_t>(begin), static_cast<int32_t>(num_bytes), i - 1, i + 1});
  };
  for (size_t position = 0; position < text.size();) {
    // The space in front is a character of its own, whatever bytes the text begins with.
    const size_t length = position == 0 ? 1 : CharBytes(text, position);
    if (const int32_t id = Find(text.substr(position, length)); id >= 0) {
      append(id, position, length);
    } else {
      for (size_t i = position; i < position + length; ++i)
        append(kFirstByte + static_cast<unsigned char>(text[i]), i, 1);
    }
    position += length;
  }
  nodes.back().next = -1;

  std::vector<Candidate> heap;
  const auto consider = [&](int32_t left) {
    if (left < 0 || nodes[left].next < 0) return;
    const Node& a = nodes[left];
    const Node& b = nodes[a.next];
    if (a.id < kFirstText || b.id < kFirstText) return;  // bytes stay bytes
    const int32_t num_bytes = a.num_bytes + b.num_bytes;
    const int32_t id = Find(text.substr(a.begin, num_bytes));
    if (id < 0) return;
    heap.push_back({scores[id], left, num_bytes, id});
    std::push_heap(heap.begin(), heap.end());
  };
  for (int32_t i = 0; i < std::ssize(nodes); ++i) consider(i);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const Candidate best = heap.back();
    heap.pop_back();
    Node& left = nodes[best.left];
    // A candidate outlives its pair: then one of the two has grown, or the left one is gone.
    if (left.num_bytes == 0 || left.next < 0) continue;
    Node& right = nodes[left.next];
    if (left.num_bytes + right.num_bytes != best.num_bytes) continue;
    left.id = best.id;
    left.num_bytes = best.num_bytes;
    left.next = right.next;
    right.num_bytes = 0;
    if (left.next >= 0) nodes[left.next].previous = best.left;
    consider(left.previous);
    consider(best.left);
  }
  std::vector<int32_t> ids;
  for (int32_t i = 0; i >= 0; i = nodes[i].next) ids.push_back(nodes[i].id);
  return ids;
}

SpmTokenizer::SpmTokenizer(SpmVocabulary vocabulary)
    : impl_(std::make_unique<const Impl>(std::move(vocabulary))) {}

SpmTokenizer::~SpmTokenizer() = default;

std::vector<int32_t> SpmTokenizer::Encode(std::span<const Segment> segments) const {
  std::string text = " ";
  for (const Segment& segment : segments) text += segment.text;
  CheckInput(text.size() <= std::numeric_limits<int32_t>::max(),
             "text: has {} bytes, at most 2^31 - 2 are accepted", text.size() - 1);
  if (text.size() == 1) return {};
  return impl_->Merge(text);
}

std::string_view SpmTokenizer::Decode(int32_t id) const { return impl_->BytesOf(id); }

int32_t SpmTokenizer::vocab_size() const { return static_cast<int32_t>(impl_->token_bytes.size()); }

const SpecialIds& SpmTokenizer::special_ids() const { return impl_->special_ids; }

bool SpmTokenizer::IsSpecial(int32_t id) const {
  impl_->BytesOf(id);
  return id == kUnknown || id == kBos || id == kEos;
}

int32_t SpmTokenizer::FindToken(std::string_view text) const {
  for (const int32_t id : {kUnknown, kBos, kEos})
    if (impl_->token_bytes[id] == text) return id;
  return impl_->Find(text);
}

}  // namespace flashinfer::engine
