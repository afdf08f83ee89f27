// SPDX-License-Identifier: Apache-2.0
// The vectors of a row: whole ones, and the part at its end.
#pragma once

#include "backends/cpu/simd/simd.h"
#include "backends/cpu/simd/streamed_store.h"

namespace flashinfer::cpu::FLASHINFER_ISA {

/// Loads and stores of whole vectors. A type of its own, as the compiler leaves Store(p, v, n) a
/// call even where it sees that n is F32::kWidth.
struct AllLanes {
  template <class T>
  F32 LoadFrom(const T* p) const {
    return Load(p);
  }
  template <class T>
  void StoreTo(T* p, F32 v) const {
    Store(p, v);
  }
  /// `v`; of a part, 0 in the lanes beyond it.
  F32 Only(F32 v) const { return v; }
};

/// Of the first `n` lanes.
struct SomeLanes {
  int n;
  template <class T>
  F32 LoadFrom(const T* p) const {
    return Load(p, n);
  }
  template <class T>
  void StoreTo(T* p, F32 v) const {
    Store(p, v, n);
  }
  F32 Only(F32 v) const { return SelectFirst(n, v, F32::Set(0.0f)); }
};

/// Calls `body(i, lanes)` for elements i to i + F32::kWidth of a row, from `begin` on.
template <class Body>
inline void ForEachVector(int64_t begin, int64_t end, Body body) {
  int64_t i = begin;
  for (; i + F32::kWidth <= end; i += F32::kWidth) body(i, AllLanes());
  if (i < end) body(i, SomeLanes{static_cast<int>(end - i)});
}

/// Asks for kCount elements that will be wanted soon.
template <int64_t kCount, class T>
inline void Fetch(const T* p) {
  constexpr int64_t kBytes = kCount * int64_t{sizeof(T)};
  for (int64_t i = 0; i < kBytes; i += 64) {
    __builtin_prefetch(reinterpret_cast<const char*>(p) + i, 0, 2);
  }
}

struct FetchNothing {
  template <int64_t kCount>
  void operator()(int64_t) const {}
};

/// Writes `value(i, lanes)` to elements i to i + F32::kWidth of a row: lines of them, one after the
/// other by `write(out, vectors)`, and vectors at the end. Before a line of kCount elements from i
/// on it calls `fetch.operator()<kCount>(i)`.
template <class O, class Value, class FetchAhead, class Write>
inline void WriteLines(O* out, int64_t size, Value value, FetchAhead fetch, Write write) {
  constexpr int kVectors = kLineVectors<O>;
  constexpr int64_t kElements = kVectors * F32::kWidth;
  int64_t i = 0;
  for (; i + kElements <= size; i += kElements) {
    fetch.template operator()<kElements>(i);
    F32 v[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) v[j] = value(i + j * F32::kWidth, AllLanes());
    write(out + i, v);
  }
  ForEachVector(i, size,
                [&](int64_t at, auto lanes) { lanes.StoreTo(out + at, value(at, lanes)); });
}

/// The same, past the caches where `streams` is set and `out` can take it. A line is made before it
/// is written, so that `out` may be what `value` reads.
template <class O, class Value, class FetchAhead = FetchNothing>
inline void WriteRow(O* out, bool streams, int64_t size, Value value, FetchAhead fetch = {}) {
  if (streams && IsStreamable(out)) {
    WriteLines(out, size, value, fetch, [](O* p, const auto& v) { StreamLine(p, v); });
  } else {
    WriteLines(out, size, value, fetch, [](O* p, const auto& v) { StoreLine(p, v); });
  }
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
