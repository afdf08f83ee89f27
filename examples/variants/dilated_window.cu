// SPDX-License-Identifier: Apache-2.0
// A causal window of which only every stride-th key is seen, and the first few keys always.
// param: i32 window
// param: i32 stride
// param: i32 num_first
struct Variant {
  static bool Sees(const VariantParams& p, const LogitPosition& at) {
    const int32_t distance = at.q_position() - at.kv_index;
    if (distance < 0) return false;
    return at.kv_index < p.num_first || (distance < p.window && distance % p.stride == 0);
  }
};
