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

/// Blocks begin on a pair of cache lines.
constexpr size_t Rounded(size_t bytes) { return (bytes + 127) / 128 * 128; }

/// `bytes` of address space that begin on a huge page; memory is taken as it is touched.
std::shared_ptr<void> MapPiece(size_t bytes) {
  const size_t whole = bytes + kHugePage;
  void* map = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) {
    throw Error(ErrorKind::kDevice, fmt::format("no memory for {} bytes of weights", bytes));
  }
  const std::shared_ptr<void> owner(map, [whole](void* p) { munmap(p, whole); });
  const size_t address = reinterpret_cast<size_t>(map);
  void* begin = reinterpret_cast<void*>((address + kHugePage - 1) / kHugePage * kHugePage);
  madvise(begin, bytes, MADV_HUGEPAGE);
  return {owner, begin};
}

/// The piece that small blocks are cut from; blocks keep it alive.
struct OpenPiece {
  std::mutex mutex;
  std::weak_ptr<void> piece;
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
  piece_ = open.piece.lock();
  if (piece_ == nullptr || open.used + bytes > kPieceBytes) {
    piece_ = MapPiece(kPieceBytes);
    open.piece = piece_;
    open.used = 0;
  }
  data_ = static_cast<uint8_t*>(piece_.get()) + open.used;
  open.used += Rounded(bytes);
}

PageBlock::~PageBlock() {
  // The last block of the open piece makes room for the next: matrix products pack for one call.
  OpenPiece& open = GetOpenPiece();
  const std::lock_guard lock(open.mutex);
  const uint8_t* begin = static_cast<const uint8_t*>(piece_.get());
  if (open.piece.lock() == piece_ && data_ + Rounded(size_) == begin + open.used) {
    open.used -= Rounded(size_);
  }
}

}  // namespace flashinfer::cpu
