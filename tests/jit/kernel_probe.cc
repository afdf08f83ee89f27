// SPDX-License-Identifier: Apache-2.0
// Gets kernels as any process would: for tests that start, kill and starve processes.
#include <cstdio>

#include "flashinfer/error.h"
#include "flashinfer/jit.h"
#include "jit/hash.h"

/// kernel_probe ARCH SPEC...: a line of origin, milliseconds and hash of the CUBIN for each.
int main(int argc, char** argv) {
  try {
    for (int i = 2; i < argc; ++i) {
      const flashinfer::CompiledKernel kernel = flashinfer::GetKernel(argv[i], argv[1]);
      std::printf("%s %.2f %s\n", kernel.origin.c_str(), kernel.seconds * 1e3,
                  flashinfer::jit::Hash128(kernel.cubin).c_str());
    }
  } catch (const flashinfer::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2 + static_cast<int>(error.kind());
  }
  return 0;
}
