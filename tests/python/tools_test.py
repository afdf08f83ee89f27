# SPDX-License-Identifier: Apache-2.0
"""Functions that hand over to the command line program: replay, packs, compiling ahead."""
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from flashinfer import aot, api_logging, artifacts, command

MAKE_CALLS = """
import numpy as np, flashinfer
x = np.random.default_rng().standard_normal((3, 64), dtype=np.float32)
flashinfer.rmsnorm(x, x[0])
flashinfer.silu_and_mul(x)
"""


@pytest.fixture(scope="module", autouse=True)
def _program():
    try:
        command.program()
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dumps")
    environment = {**os.environ, "FLASHINFER_LOGLEVEL": "10", "FLASHINFER_DUMP_DIR": str(folder),
                   "FLASHINFER_LOGDEST": str(folder.parent / "log")}
    subprocess.run([sys.executable, "-c", MAKE_CALLS], check=True, env=environment)
    return folder


def test_calls_are_made_again(dumps):
    calls = api_logging.replay_sequence(dumps)
    assert [(c["op"], c["result"]) for c in calls] == [("rmsnorm", "same"), ("silu_and_mul", "same")]


def test_one_call_is_read_or_made_again(dumps):
    folder = min(path for path in dumps.iterdir() if path.is_dir())
    read = api_logging.replay_from_dump(folder)
    assert read["arguments"]["x"]["shape"] == [3, 64]
    for options in ({"run": True}, {"compare_outputs": True}):
        assert api_logging.replay_from_dump(folder, **options)["result"] == "same"
    found = np.fromfile(folder / "returned.out.bin", np.float32)
    found[5] += 1
    wrong = folder.parent.parent / "wrong" / folder.name
    wrong.mkdir(parents=True)
    for path in folder.iterdir():
        (wrong / path.name).write_bytes(path.read_bytes())
    found.tofile(wrong / "returned.out.bin")
    assert api_logging.replay_from_dump(wrong, run=True)["result"] == "mismatch"


def test_what_is_no_dump_is_named(dumps, tmp_path):
    with pytest.raises(ValueError, match="dump_dir: .* holds no call.json"):
        api_logging.replay_from_dump(tmp_path)
    with pytest.raises(RuntimeError, match="holds no dumped calls"):
        api_logging.replay_sequence(tmp_path)
    with pytest.raises(NotImplementedError, match="object_registry"):
        api_logging.replay_from_dump(dumps, object_registry={"a": 1})


def test_packs(tmp_path, monkeypatch):
    monkeypatch.setenv("FLASHINFER_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("FLASHINFER_CUBINS_REPOSITORY", raising=False)
    with pytest.raises(RuntimeError, match="url|FLASHINFER_CUBINS_REPOSITORY"):
        artifacts.download_artifacts()
    packs = tmp_path / "packs"
    packs.mkdir()
    (packs / "sm90.pack").write_bytes(b"x")
    artifacts.clear_cubin()
    assert not list(packs.glob("*.pack"))


def test_compiling_ahead(tmp_path, monkeypatch):
    with pytest.raises(NotImplementedError, match="config"):
        aot.compile_and_package_modules(tmp_path, tmp_path, tmp_path, config={"fa2_head_dim": []})
    with pytest.raises(ValueError, match="project_root: .* holds no packs"):
        aot.compile_and_package_modules(None, tmp_path, tmp_path)
    (tmp_path / "packs").mkdir()
    (tmp_path / "packs" / "one.txt").write_text("no.such_family dtype=bf16\n")
    monkeypatch.setenv("FLASHINFER_CUDA_ARCH_LIST", "9.0a")
    with pytest.raises(RuntimeError, match="no.such_family"):
        aot.compile_and_package_modules(None, tmp_path / "out", tmp_path)
    nvrtc = os.environ.get("FLASHINFER_NVRTC") or "/usr/local/cuda/lib64/libnvrtc.so"
    if not pathlib.Path(nvrtc).exists():
        pytest.skip("there is no libnvrtc")
    (tmp_path / "packs" / "one.txt").write_text(
        "norm.simt dtype=bf16 dtype_weight=bf16 dtype_out=bf16 vector_size=8 row_threads=256 "
        "num_vectors=1 centered=0 has_residual=0\n")
    made = aot.compile_and_package_modules(None, tmp_path / "out", tmp_path)
    assert [path.suffix for path in made.iterdir()]
