// SPDX-License-Identifier: Apache-2.0
// The README's example.
#include <flashinfer/flashinfer.h>

#include <cstdio>

int main() {
  using namespace flashinfer;
  float x[2] = {3, 4}, weight[2] = {1, 1}, out[2];
  RmsNorm(TensorView(x, DType::kF32, {1, 2}), TensorView(weight, DType::kF32, {2}),
          TensorView(out, DType::kF32, {1, 2}));
  std::printf("%f %f\n", double{out[0]}, double{out[1]});
}
