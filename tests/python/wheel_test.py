# SPDX-License-Identifier: Apache-2.0
"""The wheel: what it holds, and that it works in a fresh environment without torch."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("FLASHINFER_LIBRARY_DIR",
                                    SOURCE / "build/release/lib")).parent

sys.path.insert(0, str(SOURCE / "tools"))
python_package = pytest.importorskip("python_package", reason="packing needs Python 3.11")
if not (BUILD / "bin/flashinfer").exists():
    pytest.skip(f"{BUILD / 'bin/flashinfer'} is not built", allow_module_level=True)

CODE = """
import sys
import numpy as np, flashinfer
x = np.full((2, 64), 3, np.float32)
assert flashinfer.rmsnorm(x, np.ones(64, np.float32), 0.0)[1, 5] == 1
assert 'torch' not in sys.modules
print(flashinfer.__version__, flashinfer.__file__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    return folder / python_package.pack(folder, BUILD)


def test_contents(wheel):
    assert wheel.name.startswith(f"flashinfer_cpp-{python_package.library_version()}-py3-none-many")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        assert archive.testzip() is None
    in_source = {str(p.relative_to(SOURCE / "python"))
                 for p in (SOURCE / "python/flashinfer").rglob("*.py")}
    assert in_source <= names
    assert {n for n in names if n.endswith(".so")} == {"flashinfer/lib/libflashinfer_tvm_ffi.so"}
    assert any(n.startswith("flashinfer/lib/libflashinfer.so.") for n in names)


def test_the_same_build_gives_the_same_bytes(wheel, tmp_path):
    again = tmp_path / python_package.pack(tmp_path, BUILD)
    assert again.read_bytes() == wheel.read_bytes()


def test_the_name_of_the_original(tmp_path):
    name = python_package.pack(tmp_path, BUILD, "flashinfer-python", "0.6.18")
    assert name.startswith("flashinfer_python-0.6.18-py3-none-")
    with zipfile.ZipFile(tmp_path / name) as archive:
        assert b'__version__ = "0.6.18"' in archive.read("flashinfer/version.py")
        metadata = archive.read("flashinfer_python-0.6.18.dist-info/METADATA").decode()
    assert "\nName: flashinfer-python\nVersion: 0.6.18\n" in metadata


def test_a_fresh_environment(wheel, tmp_path):
    """Without a network: packages that the wheel needs are those of this environment."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    python = tmp_path / "env/bin/python"
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index",
                    "--no-deps", "--disable-pip-version-check", wheel], check=True)
    site = next((tmp_path / "env/lib").glob("python*/site-packages"))
    for name in ("tvm_ffi", "numpy", "numpy.libs", "typing_extensions.py"):
        found = pathlib.Path(importlib.util.find_spec("numpy").origin).parents[1] / name
        if found.exists():
            (site / name).symlink_to(found)
    environment = {"PATH": os.environ["PATH"]}
    done = subprocess.run([python, "-c", CODE], capture_output=True, text=True, cwd=tmp_path,
                          env=environment)
    assert done.returncode == 0, done.stderr
    version, path = done.stdout.split()
    assert version == python_package.library_version() and path.startswith(str(tmp_path))
    for command in ([tmp_path / "env/bin/flashinfer"], [python, "-m", "flashinfer"]):
        done = subprocess.run([*command, "--version"], capture_output=True, text=True,
                              env=environment)
        assert done.returncode == 0 and version in done.stdout, done.stderr
