#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the Python package from a build: python/flashinfer, the libraries, the program.

pip calls build_wheel() and build_editable() (PEP 517, 660), which first build in build/release; as
a program it packs what was built there:

    tools/python_package.py [--dist NAME] [--version VERSION] [--build FOLDER] [--out FOLDER]

`--dist flashinfer-python` gives the original's name to the same package, for environments whose
other packages require it; it must not be installed beside flashinfer-cpp, whose files it has.
"""
import argparse
import base64
import hashlib
import os
import pathlib
import platform
import re
import subprocess
import sys
import tomllib
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"
LIBRARIES = ("libflashinfer.so.{abi}", "libflashinfer_tvm_ffi.so")


def library_version():
    text = (ROOT / "include/flashinfer/version.h").read_text()
    return ".".join(re.findall(r"define FLASHINFER_VERSION_[A-Z]+ (\d+)", text))


def compile_all():
    """Builds what the package holds; a build that is up to date takes a moment."""
    if not (BUILD / "build.ninja").exists():
        subprocess.run([ROOT / "tools/setup"], check=True)
        subprocess.run(["cmake", "--preset", "release"], cwd=ROOT, check=True)
    subprocess.run(["cmake", "--build", "--preset", "release", "-j", str(os.cpu_count()),
                    "--target", "flashinfer_tvm_ffi", "bin/flashinfer"], cwd=ROOT, check=True)


def wheel_tag():
    libc = os.confstr("CS_GNU_LIBC_VERSION").split()[1].replace(".", "_")
    return f"py3-none-manylinux_{libc}_{platform.machine()}"


def metadata(name, version):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}",
             f"Summary: {project['description']}", f"License: {project['license']}",
             f"Requires-Python: {project['requires-python']}"]
    lines += [f"Requires-Dist: {need}" for need in project["dependencies"]]
    for extra, needs in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {need}; extra == "{extra}"' for need in needs]
    lines += ["Description-Content-Type: text/markdown", "", (ROOT / "README.md").read_text()]
    return "\n".join(lines)


def entry_points():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    scripts = [f"{name} = {where}" for name, where in project["scripts"].items()]
    return "\n".join(["[console_scripts]", *scripts, ""])


def stripped(path):
    """The bytes of a library or program without what only a debugger reads."""
    done = subprocess.run(["strip", "--strip-unneeded", "-o", "/dev/stdout", path],
                          capture_output=True)
    return done.stdout if done.returncode == 0 and done.stdout else path.read_bytes()


def package_files(build, version):
    """(path in the wheel, bytes, whether it is a program) of all of the package."""
    for path in sorted((ROOT / "python/flashinfer").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            data = path.read_bytes()
            name = str(path.relative_to(ROOT / "python"))
            if name == "flashinfer/version.py":
                data = re.sub(rb'__version__ = ".*"', f'__version__ = "{version}"'.encode(), data)
            yield name, data, False
    abi = ".".join(library_version().split(".")[:2])
    for library in LIBRARIES:
        name = library.format(abi=abi)
        yield f"flashinfer/lib/{name}", stripped((build / "lib" / name).resolve()), False
    yield "flashinfer/bin/flashinfer", stripped(build / "bin/flashinfer"), True


class Wheel:
    """A wheel that is being written; leaving it adds the list of its files."""

    def __init__(self, folder, name, version, tag):
        stem = f"{name.replace('-', '_')}-{version}"
        self.file_name = f"{stem}-{tag}.whl"
        self.info = f"{stem}.dist-info"
        self.records = []
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        self.archive = zipfile.ZipFile(pathlib.Path(folder) / self.file_name, "w",
                                       zipfile.ZIP_DEFLATED)
        self.add(f"{self.info}/METADATA", metadata(name, version).encode())
        self.add(f"{self.info}/WHEEL", (f"Wheel-Version: 1.0\nGenerator: flashinfer\n"
                                        f"Root-Is-Purelib: false\nTag: {tag}\n").encode())
        self.add(f"{self.info}/entry_points.txt", entry_points().encode())
        self.add(f"{self.info}/licenses/LICENSE", (ROOT / "LICENSE").read_bytes())

    def add(self, name, data, is_program=False):
        self._write(name, data, is_program)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.records.append(f"{name},sha256={digest},{len(data)}\n")

    def _write(self, name, data, is_program=False):
        entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))  # the same files, the same bytes
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (0o100755 if is_program else 0o100644) << 16
        self.archive.writestr(entry, data)

    def close(self):
        record = f"{self.info}/RECORD"
        self.records.append(f"{record},,\n")
        self._write(record, "".join(self.records).encode())
        self.archive.close()
        return self.file_name


def pack(folder, build=BUILD, name=None, version=None):
    """Writes the wheel of a build into `folder`; returns its file name."""
    name, version = name or "flashinfer-cpp", version or library_version()
    wheel = Wheel(folder, name, version, wheel_tag())
    for file_name, data, is_program in package_files(pathlib.Path(build), version):
        wheel.add(file_name, data, is_program)
    return wheel.close()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    compile_all()
    return pack(wheel_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """The package stays in the source folder and finds its libraries in build/release."""
    compile_all()
    wheel = Wheel(wheel_directory, "flashinfer-cpp", library_version(), "py3-none-any")
    wheel.add("flashinfer_cpp.pth", f"{ROOT / 'python'}\n".encode())
    return wheel.close()


def build_sdist(sdist_directory, config_settings=None):
    version = library_version()
    name = f"flashinfer_cpp-{version}"
    target = pathlib.Path(sdist_directory).resolve() / f"{name}.tar.gz"
    subprocess.run(["git", "archive", f"--prefix={name}/", "-o", target, "HEAD"], cwd=ROOT,
                   check=True)
    return target.name


def main():
    parser = argparse.ArgumentParser(description="Packs a build as a wheel.")
    parser.add_argument("--dist", default="flashinfer-cpp")
    parser.add_argument("--version", default="")
    parser.add_argument("--build", type=pathlib.Path, default=BUILD)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "dist")
    args = parser.parse_args()
    print(args.out / pack(args.out, args.build, args.dist, args.version))


if __name__ == "__main__":
    sys.exit(main())
