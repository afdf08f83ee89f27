// SPDX-License-Identifier: Apache-2.0
// Reference counts, content look-up and eviction of KV cache pages.
#include "engine/kv_pool.h"

#include <xxhash.h>

#include <array>
#include <random>

namespace flashinfer::engine {

PageKey ChainKey(const PageKey& parent, std::span<const int32_t> tokens) {
  static const std::array<uint64_t, 2> seeds = [] {
    std::random_device device;
    const auto draw = [&] { return (uint64_t{device()} << 32) | device(); };
    return std::array<uint64_t, 2>{draw(), draw()};
  }();
  const XXH128_hash_t hash =
      XXH3_128bits_withSeed(tokens.data(), tokens.size_bytes(), seeds[0] ^ parent.low);
  const uint64_t words[4] = {hash.low64, hash.high64, parent.low, parent.high};
  const XXH128_hash_t chained = XXH3_128bits_withSeed(words, sizeof(words), seeds[1]);
  return {chained.low64, chained.high64};
}

KvPool::KvPool(int64_t num_pages, int32_t page_size)
    : page_size_(page_size), pages_(static_cast<size_t>(num_pages)) {
  empty_.reserve(pages_.size());
  // Low pages go first: memory that was never needed is never touched.
  for (int64_t i = num_pages - 1; i >= 0; --i) empty_.push_back(static_cast<int32_t>(i));
}

std::optional<int32_t> KvPool::Allocate() {
  int32_t page = kNone;
  if (!empty_.empty()) {
    page = empty_.back();
    empty_.pop_back();
  } else if (oldest_ != kNone) {
    page = oldest_;
    TakeUnused(page);
    by_key_.erase(At(page).key);
    At(page).published = false;
  } else {
    return std::nullopt;
  }
  At(page).num_references = 1;
  ++num_used_;
  return page;
}

std::optional<int32_t> KvPool::Match(const PageKey& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return std::nullopt;
  const int32_t page = found->second;
  if (At(page).num_references++ == 0) {
    TakeUnused(page);
    ++num_used_;
  }
  return page;
}

void KvPool::Publish(int32_t page, const PageKey& key) {
  if (At(page).published || !by_key_.emplace(key, page).second) return;
  At(page).published = true;
  At(page).key = key;
}

void KvPool::Release(int32_t page) {
  if (--At(page).num_references > 0) return;
  --num_used_;
  if (At(page).published) {
    PushUnused(page);
  } else {
    empty_.push_back(page);
  }
}

void KvPool::PushUnused(int32_t page) {
  At(page).older = newest_;
  At(page).newer = kNone;
  (newest_ == kNone ? oldest_ : At(newest_).newer) = page;
  newest_ = page;
}

void KvPool::TakeUnused(int32_t page) {
  const Page& taken = At(page);
  (taken.older == kNone ? oldest_ : At(taken.older).newer) = taken.newer;
  (taken.newer == kNone ? newest_ : At(taken.newer).older) = taken.older;
}

}  // namespace flashinfer::engine
