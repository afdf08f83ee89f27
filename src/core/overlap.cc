// SPDX-License-Identifier: Apache-2.0
// Overlap of strided tensors: runs of bytes, at the ends of a few strides.
#include "core/overlap.h"

#include <algorithm>

namespace flashinfer {
namespace {

/// Pairs of blocks that are looked at before the search is given up: some µs.
constexpr int kMaxSteps = 512;

int64_t DivFloor(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

/// A tensor's bytes: blocks at multiples of strides, of blocks, down to runs.
struct Bytes {
  struct Level {
    int64_t stride;
    int64_t count;
    int64_t extent;  ///< of a block within, from its first byte to behind its last
  };

  explicit Bytes(const TensorView& t) : begin(reinterpret_cast<intptr_t>(t.data())) {
    const int64_t size = SizeBytes(t.dtype());
    Level inner[kMaxRank];  // by rising stride
    int count = 0;
    for (int i = 0; i < t.rank(); ++i) {
      if (t.shape(i) == 1 || t.stride(i) == 0) continue;
      int64_t stride = t.stride(i) * size;
      if (stride < 0) {
        begin += stride * (t.shape(i) - 1);
        stride = -stride;
      }
      int at = count++;
      for (; at > 0 && inner[at - 1].stride > stride; --at) inner[at] = inner[at - 1];
      inner[at] = {stride, t.shape(i), 0};
    }
    int first = 0;
    run = size;
    for (; first < count && inner[first].stride == run; ++first) run *= inner[first].count;
    extent = run;
    for (int i = first; i < count; ++i) {
      inner[i].extent = extent;
      extent += inner[i].stride * (inner[i].count - 1);
    }
    for (int i = count - 1; i >= first; --i) levels[num_levels++] = inner[i];
  }

  intptr_t begin;
  int64_t run;     ///< bytes that are neighbours
  int64_t extent;  ///< from the first byte to behind the last
  Level levels[kMaxRank] = {};
  int num_levels = 0;
};

/// A block of a tensor: what is left behind some of its levels.
struct Block {
  int64_t extent() const {
    return depth == bytes.num_levels ? bytes.run
                                     : level().extent + level().stride * (level().count - 1);
  }
  const Bytes::Level& level() const { return bytes.levels[depth]; }
  bool is_run() const { return depth == bytes.num_levels; }
  Block At(int64_t index) const { return {bytes, depth + 1, begin + index * level().stride}; }

  const Bytes& bytes;
  int depth;
  int64_t begin;
};

class Search {
 public:
  bool Meet(const Block& a, const Block& b) {
    if (a.begin >= b.begin + b.extent() || b.begin >= a.begin + a.extent()) return false;
    if (a.begin == b.begin || (a.is_run() && b.is_run())) return true;
    if (steps_left_ == 0) return false;
    if (a.is_run() || (!b.is_run() && b.level().stride > a.level().stride)) return Meet(b, a);
    if (!b.is_run() && a.level().stride == b.level().stride) return MeetInStep(a, b);
    const auto [first, last] = Reach(a, b.begin, b.extent());
    for (int64_t i = first; i <= last && steps_left_ > 0; ++i) {
      --steps_left_;
      if (Meet(a.At(i), b)) return true;
    }
    return false;
  }

 private:
  struct Range {
    int64_t first;
    int64_t last;
  };

  /// The blocks of `a` of which a byte may be in [begin, begin + extent).
  static Range Reach(const Block& a, int64_t begin, int64_t extent) {
    const auto& level = a.level();
    const int64_t first = DivFloor(begin - a.begin - level.extent, level.stride) + 1;
    const int64_t last = DivFloor(begin + extent - 1 - a.begin, level.stride);
    return {std::max<int64_t>(first, 0), std::min(last, level.count - 1)};
  }

  /// Blocks of one stride: those of a pair lie to each other as those of any pair as far apart.
  bool MeetInStep(const Block& a, const Block& b) {
    const int64_t stride = a.level().stride;
    const int64_t ahead = b.begin - a.begin;
    const int64_t least = DivFloor(-b.level().extent - ahead, stride) + 1;
    const int64_t most = DivFloor(a.level().extent - 1 - ahead, stride);
    for (int64_t apart = std::max(least, 1 - a.level().count);
         apart <= std::min(most, b.level().count - 1) && steps_left_ > 0; ++apart) {
      --steps_left_;
      if (Meet(a.At(std::max<int64_t>(0, -apart)), b.At(std::max<int64_t>(0, apart)))) return true;
    }
    return false;
  }

  int steps_left_ = kMaxSteps;
};

/// From the first byte to behind the last.
struct Extent {
  explicit Extent(const TensorView& t)
      : begin(reinterpret_cast<intptr_t>(t.data())), end(begin + SizeBytes(t.dtype())) {
    for (int i = 0; i < t.rank(); ++i) {
      const int64_t bytes = t.stride(i) * (t.shape(i) - 1) * SizeBytes(t.dtype());
      (bytes < 0 ? begin : end) += bytes;
    }
  }
  intptr_t begin;
  intptr_t end;
};

}  // namespace

bool SharesMemory(const TensorView& a, const TensorView& b) {
  if (a.device() != b.device() || a.num_elements() == 0 || b.num_elements() == 0) return false;
  const Extent extent_a(a), extent_b(b);
  if (extent_a.begin >= extent_b.end || extent_b.begin >= extent_a.end) return false;
  const Bytes bytes_a(a), bytes_b(b);
  return Search().Meet({bytes_a, 0, bytes_a.begin}, {bytes_b, 0, bytes_b.begin});
}

bool IsSameView(const TensorView& a, const TensorView& b) {
  if (a.data() != b.data() || a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  for (int i = 0; i < a.rank(); ++i) {
    if (a.shape(i) > 1 && a.stride(i) != b.stride(i)) return false;
  }
  return true;
}

}  // namespace flashinfer
