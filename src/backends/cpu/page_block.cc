// SPDX-License-Identifier: Apache-2.0
// Long-lived memory in huge pages.
#include "backends/cpu/page_block.h"

#include <sys/mman.h>

#include <mutex>

#include "core/check.h"

namespace flashinfer::cpu {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kPieceBytes = size_t{64} << 20;

/// Of a piece without blocks, what is not given back to the system.
constexpr size_t kKeptBytes = size_t{8} << 20;

/// Blocks begin on a pair of cache lines.
constexpr size_t Rounded(size_t bytes) { return (bytes + 127) / 128 * 128; }

/// `bytes` of address space that begin on a huge page; memory is taken as it is touched.
std::shared_ptr<void> MapPiece(size_t bytes) {
  const size_t whole = bytes + kHugePage;
  void* map = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) {
    throw Error(ErrorKind::kDevice, fmt::format("no memory for {} bytes", bytes));
  }
  const std::shared_ptr<void> owner(map, [whole](void* p) { munmap(p, whole); });
  const size_t past_huge_page = reinterpret_cast<size_t>(map) % kHugePage;
  void* begin = static_cast<char*>(map) + (kHugePage - past_huge_page) % kHugePage;
  madvise(begin, bytes, MADV_HUGEPAGE);
  return {owner, begin};
}

/// The piece that small blocks are cut from, which keep it alive. It stays when they are gone, so
/// that products which pack a matrix for one call do not wait for fresh pages each time: those of
/// 1 MiB take 0.1 ms, as long as the product of 256 x 256 matrices (Zen 4, 2026-11).
struct OpenPiece {
  std::mutex mutex;
  std::shared_ptr<void> piece;
  size_t used = 0;
};

OpenPiece& GetOpenPiece() {
  static auto* open = new OpenPiece;
  return *open;
}

}  // namespace

PageBlock::PageBlock(size_t bytes) : size_(bytes) {
  if (bytes > kPieceBytes / 2) {
    piece_ = MapPiece(bytes);
    data_ = static_cast<uint8_t*>(piece_.get());
    return;
  }
  OpenPiece& open = GetOpenPiece();
  const std::lock_guard lock(open.mutex);
  if (open.piece == nullptr || open.used + bytes > kPieceBytes) {
    open.piece = MapPiece(kPieceBytes);
    open.used = 0;
  }
  piece_ = open.piece;
  data_ = static_cast<uint8_t*>(piece_.get()) + open.used;
  open.used += Rounded(bytes);
}

PageBlock::~PageBlock() {
  OpenPiece& open = GetOpenPiece();
  const std::lock_guard lock(open.mutex);
  if (open.piece != piece_) return;
  piece_.reset();
  auto* begin = static_cast<uint8_t*>(open.piece.get());
  const bool was_last = data_ + Rounded(size_) == begin + open.used;
  if (open.piece.use_count() == 1) {
    open.used = 0;
    madvise(begin + kKeptBytes, kPieceBytes - kKeptBytes, MADV_DONTNEED);
  } else if (was_last) {
    open.used -= Rounded(size_);
  }
}

}  // namespace flashinfer::cpu
