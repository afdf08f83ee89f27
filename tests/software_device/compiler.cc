// SPDX-License-Identifier: Apache-2.0
// libnvrtc of the software device: compiles units with the host's compiler.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "software_device/image_file.h"

namespace {

namespace fs = std::filesystem;

constexpr int kSuccess = 0;
constexpr int kInvalidInput = 3;
constexpr int kCompilation = 6;

struct Header {
  std::string name;
  std::string text;
};

struct Program {
  std::string source;
  std::vector<Header> headers;
  std::string log;
  std::string image;
};

/// Shared memory is the running block's; loops are left to the compiler, which is quicker.
std::string ForHost(std::string text) {
  static const std::regex dynamic(R"(extern __shared__ (?:__align__\(\d+\) )?(\w+) (\w+)\[\];)");
  static const std::regex fixed(R"(__shared__ (?:alignas\(\d+\) )?(\w+) (\w+)((?:\[[^\]]*\])*);)");
  static const std::regex unroll("#pragma unroll[^\n]*");
  text = std::regex_replace(
      text, dynamic,
      "$1* const $2 = reinterpret_cast<$1*>(::flashinfer::software_device::Self().shared);");
  text = std::regex_replace(
      text, fixed, "auto& $2 = ::flashinfer::software_device::FixedShared<$1$3, __COUNTER__>();");
  return std::regex_replace(text, unroll, "");
}

void Write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string Read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string Quoted(const fs::path& path) { return "'" + path.string() + "'"; }

/// Compiles in `folder`.
int CompileIn(const fs::path& folder, Program& program, const std::string& arch) {
  const fs::path own = fs::path(FLASHINFER_SOURCE_DIR) / "tests";
  const fs::path replaced = own / "software_device/unit";
  for (const Header& header : program.headers) {
    // Those that are replaced are found first.
    Write(folder / "unit" / header.name, ForHost(header.text));
  }
  Write(folder / "unit.cc", "#include \"software_device/unit/prelude.h\"\n" +
                                ForHost(program.source) +
                                "\n#include \"software_device/unit/image.h\"\n");
  const std::string command = "'" FLASHINFER_HOST_COMPILER
                              "' -std=c++20 -O1 -fPIC -shared -w -march=native "
                              "-fno-strict-aliasing -fvisibility=hidden -D__CUDA_ARCH__=" +
                              arch + "0 -I" + Quoted(replaced) + " -I" + Quoted(folder / "unit") +
                              " -I" + Quoted(own) + " " + Quoted(folder / "unit.cc") + " -o " +
                              Quoted(folder / "unit.so") + " >" + Quoted(folder / "log") + " 2>&1";
  const int status = std::system(command.c_str());
  program.log = Read(folder / "log");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return kCompilation;
  program.image = flashinfer::software_device::WithHeader(Read(folder / "unit.so"), arch);
  program.log =
      "ptxas info    : Used 64 registers, used 1 barriers\n"
      "ptxas         . 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n";
  return kSuccess;
}

/// Stands in the keys of kernels: those compiled with other files are compiled again.
int HashOfOwnFiles() {
  static const int hash = [] {
    size_t hash_of_all = 0;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(FLASHINFER_SOURCE_DIR) /
                                                              "tests/software_device")) {
      // A sum does not depend on the order of the files.
      if (entry.is_regular_file()) hash_of_all += std::hash<std::string>()(Read(entry.path()));
    }
    return static_cast<int>(hash_of_all & 0x7fffffff);
  }();
  return hash;
}

void CopyOut(const std::string& text, char* to) { text.copy(to, text.size()); }

}  // namespace

// NOLINTBEGIN(readability-identifier-naming)
#define ENTRY extern "C" __attribute__((visibility("default")))

ENTRY int nvrtcVersion(int* major, int* minor) {
  return *major = 13, *minor = HashOfOwnFiles(), kSuccess;
}
ENTRY const char* nvrtcGetErrorString(int result) {
  return result == kSuccess ? "NVRTC_SUCCESS" : "NVRTC_ERROR_COMPILATION";
}
ENTRY int nvrtcGetNumSupportedArchs(int* count) { return *count = 5, kSuccess; }
ENTRY int nvrtcGetSupportedArchs(int* archs) {
  for (int arch : {75, 80, 86, 89, 90}) *archs++ = arch;
  return kSuccess;
}
ENTRY int nvrtcCreateProgram(Program** program, const char* source, const char*, int num_headers,
                             const char* const* headers, const char* const* names) {
  *program = new Program{.source = source, .headers = {}, .log = {}, .image = {}};
  for (int i = 0; i < num_headers; ++i) (*program)->headers.push_back({names[i], headers[i]});
  return kSuccess;
}
ENTRY int nvrtcDestroyProgram(Program** program) {
  delete *program;
  *program = nullptr;
  return kSuccess;
}
ENTRY int nvrtcCompileProgram(Program* program, int num_options, const char* const* options) {
  std::string arch;
  constexpr const char kArch[] = "--gpu-architecture=sm_";
  for (int i = 0; i < num_options; ++i) {
    if (std::strncmp(options[i], kArch, sizeof(kArch) - 1) == 0) {
      arch = options[i] + sizeof(kArch) - 1;
    }
  }
  while (!arch.empty() && (arch.back() < '0' || arch.back() > '9')) arch.pop_back();
  std::string pattern = (fs::temp_directory_path() / "flashinfer-unit-XXXXXX").string();
  if (arch.empty() || mkdtemp(pattern.data()) == nullptr) return kInvalidInput;
  const int result = CompileIn(pattern, *program, arch);
  fs::remove_all(pattern);
  return result;
}
ENTRY int nvrtcGetProgramLogSize(Program* program, size_t* size) {
  return *size = program->log.size(), kSuccess;
}
ENTRY int nvrtcGetProgramLog(Program* program, char* log) {
  return CopyOut(program->log, log), kSuccess;
}
ENTRY int nvrtcGetCUBINSize(Program* program, size_t* size) {
  return *size = program->image.size(), kSuccess;
}
ENTRY int nvrtcGetCUBIN(Program* program, char* image) {
  return CopyOut(program->image, image), kSuccess;
}
// NOLINTEND(readability-identifier-naming)
