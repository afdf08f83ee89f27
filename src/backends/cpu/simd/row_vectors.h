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
  /// StoreTo() of what may go past the caches.
  template <class T>
  void StreamTo(T* p, F32 v) const {
    Store(p, v);
  }
};

/// The same, with outputs past the caches; for addresses that IsStreamable() takes.
struct StreamedLanes : AllLanes {
  template <class T>
  void StreamTo(T* p, F32 v) const {
    Stream(p, v);
  }
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
  template <class T>
  void StreamTo(T* p, F32 v) const {
    Store(p, v, n);
  }
};

/// Calls `body(i, lanes)` for elements i to i + F32::kWidth of a row.
template <class Body, class Lanes = AllLanes>
inline void ForEachVector(int64_t size, Body body, Lanes lanes = {}) {
  int64_t i = 0;
  for (; i + F32::kWidth <= size; i += F32::kWidth) body(i, lanes);
  if (i < size) body(i, SomeLanes{static_cast<int>(size - i)});
}

/// The same with StreamedLanes where `streams` is set and `out` can take them.
template <class O, class Body>
inline void ForEachVectorTo(const O* out, bool streams, int64_t size, Body body) {
  if (streams && IsStreamable(out)) return ForEachVector(size, body, StreamedLanes());
  ForEachVector(size, body);
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
