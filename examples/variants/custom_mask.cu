// SPDX-License-Identifier: Apache-2.0
// A mask of bits: request b's begin at byte mask_begin[b], q_len rows of kv_len bits, lowest first.
// param: u8[] mask
// param: i64[] mask_begin  // [num_requests]
struct Variant {
  static bool Sees(const VariantParams& p, const LogitPosition& at) {
    const int64_t bit = int64_t{at.q_index} * at.kv_len + at.kv_index;
    return (p.mask[p.mask_begin[at.request] + bit / 8] >> (bit % 8) & 1) != 0;
  }
};
