// SPDX-License-Identifier: Apache-2.0
// `flashinfer install-cubin-wheel` and `install-jit-cache-wheel`: packs as a Python package.
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "flashinfer/error.h"
#include "flashinfer/pack.h"
#include "flashinfer/version.h"
#include "kernel_commands.h"
#include "process.h"

namespace flashinfer::cli {
namespace {

/// Writes PACKAGE-VERSION-py3-none-any.whl of the packs and installs it with pip. Arguments:
/// package, version, packs.
constexpr const char* kMakeWheel = R"python(
import base64, hashlib, os, subprocess, sys, tempfile, zipfile
package, version, packs = sys.argv[1], sys.argv[2], sys.argv[3:]
info = f"{package}-{version}.dist-info"
functions = {"flashinfer_cubin": "get_cubin_dir", "flashinfer_jit_cache": "get_jit_cache_dir"}
files = {
    f"{package}/__init__.py":
        f'"""Packs of compiled flashinfer kernels."""\nimport os\n\n__version__ = "{version}"\n\n\n'
        f'def {functions[package]}():\n    """The folder of the packs."""\n'
        f'    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "packs")\n',
    f"{info}/METADATA":
        f"Metadata-Version: 2.1\nName: {package.replace('_', '-')}\nVersion: {version}\n"
        "Summary: Packs of compiled flashinfer kernels\nLicense: Apache-2.0\n",
    f"{info}/WHEEL":
        "Wheel-Version: 1.0\nGenerator: flashinfer\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
with tempfile.TemporaryDirectory() as folder:
    wheel = os.path.join(folder, f"{package}-{version}-py3-none-any.whl")
    record = []
    with zipfile.ZipFile(wheel, "w") as archive:
        def add(name, data):
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}\n")
            archive.writestr(zipfile.ZipInfo(name), data)
        for name, text in files.items():
            add(name, text.encode())
        for pack in packs:
            with open(pack, "rb") as file:
                add(f"{package}/packs/{os.path.basename(pack)}", file.read())
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD"), "".join(record) + f"{info}/RECORD,,\n")
    sys.exit(subprocess.call([sys.executable, "-m", "pip", "install", "--no-deps", "--no-index",
                              "--force-reinstall", "--disable-pip-version-check", "-q", wheel]))
)python";

int Install(const std::string& package, const KernelOptions& options) {
  const WheelOptions& o = options.wheel;
  const std::vector<std::string> packs = o.packs.empty() ? FindPacks() : o.packs;
  if (packs.empty()) {
    throw Error(ErrorKind::kInvalidArgument,
                "packs: none was given and none is found; `flashinfer pack build` makes them");
  }
  for (const std::string& pack : packs) VerifyPack(pack);
  const Finished python =
      RunProgram({o.python, "-c",
                  "import importlib.util, sys; sys.exit(importlib.util.find_spec('pip') is None)"});
  if (python.exit_code != 0) {
    throw Error(ErrorKind::kIo,
                fmt::format("python: '{}' {}", o.python,
                            python.exit_code == 1 ? "has no pip" : "cannot be run"));
  }
  nlohmann::ordered_json json{{"package", package},
                              {"version", std::string(Version())},
                              {"python", o.python},
                              {"packs", packs},
                              {"installed", !o.dry_run}};
  if (!o.dry_run) {
    std::vector<std::string> words{o.python, "-c", kMakeWheel, package, std::string(Version())};
    words.insert(words.end(), packs.begin(), packs.end());
    const Finished finished = RunProgram(words);
    if (finished.exit_code != 0) {
      throw Error(ErrorKind::kIo, fmt::format("{}: pip ended with {}; {}", o.python,
                                              finished.exit_code, finished.out));
    }
  }
  if (options.json) {
    fmt::print("{}\n", json.dump(2));
    return 0;
  }
  fmt::print("{} {} {} for {}:\n", o.dry_run ? "would install" : "installed", package, Version(),
             o.python);
  for (const std::string& pack : packs) fmt::print("  {}\n", pack);
  return 0;
}

}  // namespace

int InstallCubinWheel(const KernelOptions& options) { return Install("flashinfer_cubin", options); }
int InstallJitCacheWheel(const KernelOptions& options) {
  return Install("flashinfer_jit_cache", options);
}

}  // namespace flashinfer::cli
