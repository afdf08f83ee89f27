// SPDX-License-Identifier: Apache-2.0
// Who uses which page of the KV cache, and which pages hold a prefix that others may share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace flashinfer::engine {

/// Names the content of a full page: a hash chained over all tokens from the sequence's start to
/// the page's end.
struct PageKey {
  uint64_t low = 0;
  uint64_t high = 0;
  friend bool operator==(const PageKey&, const PageKey&) = default;
};

/// The key of the page that follows the one with key `parent` (a default one at the start) and
/// holds `tokens`. Seeded per process, so that nobody can prepare colliding prompts.
PageKey ChainKey(const PageKey& parent, std::span<const int32_t> tokens);

/// Counts references to pages and keeps unreferenced pages with known content until their place
/// is needed, the longest unused going first.
class KvPool {
 public:
  KvPool(int64_t num_pages, int32_t page_size);

  int64_t num_pages() const { return static_cast<int64_t>(pages_.size()); }
  int32_t page_size() const { return page_size_; }
  /// Pages that Allocate() can still give.
  int64_t num_free() const { return num_pages() - num_used_; }
  int64_t num_used() const { return num_used_; }
  int64_t PagesFor(int64_t num_tokens) const { return (num_tokens + page_size_ - 1) / page_size_; }

  /// A page of undefined content with one reference; nothing when all are in use.
  std::optional<int32_t> Allocate();
  /// One more reference to the page with this content, if there is one.
  std::optional<int32_t> Match(const PageKey& key);
  /// Lets others find the page by its content, unless another page has the same.
  void Publish(int32_t page, const PageKey& key);
  /// Gives one reference back.
  void Release(int32_t page);

 private:
  struct Page {
    int32_t num_references = 0;
    int32_t older = kNone, newer = kNone;  ///< neighbours in the list of unused pages with content
    bool published = false;
    PageKey key;
  };
  struct HashKey {
    size_t operator()(const PageKey& key) const { return key.low; }
  };
  static constexpr int32_t kNone = -1;

  void PushUnused(int32_t page);
  void TakeUnused(int32_t page);
  Page& At(int32_t page) { return pages_[static_cast<size_t>(page)]; }

  int32_t page_size_;
  int64_t num_used_ = 0;
  std::vector<Page> pages_;
  std::vector<int32_t> empty_;  ///< unused without content; the back goes first
  int32_t oldest_ = kNone, newest_ = kNone;
  std::unordered_map<PageKey, int32_t, HashKey> by_key_;
};

}  // namespace flashinfer::engine
