// SPDX-License-Identifier: Apache-2.0
// The merge rules of byte-level BPE and their application to one word.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace flashinfer::engine {

/// Symbols are what a word is made of while it is merged: tokens by their ids, and above them
/// those strings that rules or bytes need and that are no tokens.
class BpeMerges {
 public:
  /// `token_bytes[id]` is empty for a token that merging must not yield. Borrows it.
  explicit BpeMerges(const std::vector<std::string_view>& token_bytes, size_t num_rules);
  BpeMerges(const BpeMerges&) = delete;
  BpeMerges& operator=(const BpeMerges&) = delete;

  /// The next rule; of equal rules the first counts.
  void Add(std::string_view left, std::string_view right);

  /// The token with these bytes, or -1.
  int32_t Find(std::string_view bytes) const;

  /// Reusable memory of Merge; one a thread.
  struct Scratch;

  /// Appends the tokens of `word`: the rule that was added first is applied first, its leftmost
  /// place first. A byte that is left and has no token yields nothing.
  void Merge(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const;

 private:
  struct Rule {
    int32_t rank;
    int32_t merged;
  };
  int32_t Intern(std::string_view bytes);
  const Rule* FindRule(int32_t left, int32_t right) const;
  void AppendTokens(int32_t symbol, std::vector<int32_t>& ids) const;

  int32_t vocab_size_;
  std::unordered_map<std::string_view, int32_t> symbols_;
  std::deque<std::string> beyond_vocab_;  // bytes of symbol vocab_size_ + i
  std::array<int32_t, 256> byte_symbols_;
  std::unordered_map<uint64_t, Rule> rules_;
  int32_t num_rules_ = 0;
};

struct BpeMerges::Scratch {
  struct Node {
    int32_t symbol;  // -1 once merged into its left neighbour
    int32_t previous;
    int32_t next;
  };
  struct Candidate {
    int32_t rank;
    int32_t left;  // node
    int32_t left_symbol;
    int32_t right_symbol;
    int32_t merged;
  };
  std::vector<Node> nodes;
  std::vector<Candidate> heap;
};

}  // namespace flashinfer::engine
