// SPDX-License-Identifier: Apache-2.0
// Merging by a linked list of symbols and a heap of candidate pairs: O(n log n) a word.
#include "engine/bpe_merges.h"

#include <algorithm>
#include <tuple>

namespace flashinfer::engine {
namespace {

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

BpeMerges::BpeMerges(const std::vector<std::string_view>& token_bytes, size_t num_rules)
    : vocab_size_(static_cast<int32_t>(token_bytes.size())) {
  symbols_.reserve(token_bytes.size() + 256);
  rules_.reserve(num_rules);
  for (int32_t id = 0; id < vocab_size_; ++id)
    if (!token_bytes[id].empty()) symbols_.insert_or_assign(token_bytes[id], id);
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    byte_symbols_[byte] = Intern(std::string_view(&c, 1));
  }
}

int32_t BpeMerges::Intern(std::string_view bytes) {
  if (const auto found = symbols_.find(bytes); found != symbols_.end()) return found->second;
  const std::string& kept = beyond_vocab_.emplace_back(bytes);
  const auto symbol = vocab_size_ + static_cast<int32_t>(beyond_vocab_.size()) - 1;
  symbols_.emplace(kept, symbol);
  return symbol;
}

void BpeMerges::Add(std::string_view left, std::string_view right) {
  const int32_t left_symbol = Intern(left);
  const int32_t right_symbol = Intern(right);
  const int32_t merged = Intern(std::string(left).append(right));
  rules_.try_emplace(PairKey(left_symbol, right_symbol), Rule{num_rules_++, merged});
}

int32_t BpeMerges::Find(std::string_view bytes) const {
  const auto found = symbols_.find(bytes);
  return found != symbols_.end() && found->second < vocab_size_ ? found->second : -1;
}

const BpeMerges::Rule* BpeMerges::FindRule(int32_t left, int32_t right) const {
  const auto found = rules_.find(PairKey(left, right));
  return found == rules_.end() ? nullptr : &found->second;
}

void BpeMerges::AppendTokens(int32_t symbol, std::vector<int32_t>& ids) const {
  if (symbol < vocab_size_) {
    ids.push_back(symbol);
    return;
  }
  for (const char byte : beyond_vocab_[symbol - vocab_size_]) {
    const int32_t id = byte_symbols_[static_cast<unsigned char>(byte)];
    if (id < vocab_size_) ids.push_back(id);
  }
}

void BpeMerges::Merge(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const {
  auto& [nodes, heap] = scratch;
  const auto size = static_cast<int32_t>(word.size());
  nodes.clear();
  heap.clear();
  for (int32_t i = 0; i < size; ++i)
    nodes.push_back(
        {byte_symbols_[static_cast<unsigned char>(word[i])], i - 1, i + 1 < size ? i + 1 : -1});

  const auto later = [](const Scratch::Candidate& a, const Scratch::Candidate& b) {
    return std::tie(a.rank, a.left) > std::tie(b.rank, b.left);
  };
  const auto consider = [&](int32_t left) {
    if (left < 0 || nodes[left].next < 0) return;
    const int32_t left_symbol = nodes[left].symbol;
    const int32_t right_symbol = nodes[nodes[left].next].symbol;
    const Rule* rule = FindRule(left_symbol, right_symbol);
    if (rule == nullptr) return;
    heap.push_back({rule->rank, left, left_symbol, right_symbol, rule->merged});
    std::push_heap(heap.begin(), heap.end(), later);
  };

  for (int32_t i = 0; i + 1 < size; ++i) consider(i);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Scratch::Candidate best = heap.back();
    heap.pop_back();
    Scratch::Node& left = nodes[best.left];
    // A candidate outlives the pair that it was made for.
    if (left.symbol != best.left_symbol || left.next < 0) continue;
    Scratch::Node& right = nodes[left.next];
    if (right.symbol != best.right_symbol) continue;

    left.symbol = best.merged;
    left.next = right.next;
    right.symbol = -1;
    if (left.next >= 0) nodes[left.next].previous = best.left;
    consider(left.previous);
    consider(best.left);
  }
  for (int32_t i = 0; i >= 0 && i < size; i = nodes[i].next) AppendTokens(nodes[i].symbol, ids);
}

}  // namespace flashinfer::engine
