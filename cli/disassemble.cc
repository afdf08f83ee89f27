// SPDX-License-Identifier: Apache-2.0
// Finds and runs nvdisasm.
#include "disassemble.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "flashinfer/error.h"
#include "process.h"

namespace flashinfer::cli {
namespace {

/// A file that goes away.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& bytes) {
    const int fd = mkstemp(path_.data());
    std::FILE* file = fd < 0 ? nullptr : fdopen(fd, "wb");
    const bool is_written =
        file != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
    if (file == nullptr || std::fclose(file) != 0 || !is_written) {
      throw Error(ErrorKind::kIo, path_ + ": cannot be written");
    }
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/flashinfer-XXXXXX";
};

/// Where wheels and toolkits put it: the wheel's file is not in PATH.
std::string FromPython() {
  const Finished found = RunProgram(
      {"python3", "-c",
       "import glob, sys\n"
       "for p in sys.path:\n"
       "  for f in glob.glob(p + '/nvidia/cu1[23]/bin/nvdisasm')"
       " + glob.glob(p + '/nvidia/cuda_nvdisasm/bin/nvdisasm'): print(f, end=''); sys.exit()"});
  return found.exit_code == 0 ? found.out : "";
}

}  // namespace

std::string Disassemble(const std::string& cubin) {
  const TemporaryFile file(cubin);
  const std::array<std::string, 3> programs{"nvdisasm", "/usr/local/cuda/bin/nvdisasm",
                                            FromPython()};
  for (const std::string& program : programs) {
    if (program.empty()) continue;
    Finished finished = RunProgram({program, "-c", file.path()});
    if (finished.exit_code == 0) return finished.out;
  }
  throw Error(ErrorKind::kUnsupported,
              "no nvdisasm was found in PATH, /usr/local/cuda/bin or Python's packages; "
              "pip install nvidia-cuda-nvdisasm has it");
}

}  // namespace flashinfer::cli
