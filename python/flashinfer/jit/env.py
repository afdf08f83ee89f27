# SPDX-License-Identifier: Apache-2.0
"""Folders under the original's names. Nothing is made or read when this is imported."""
import os
import pathlib


def _cache_folder():
    """As the library chooses it: FLASHINFER_CACHE_DIR, then the user's cache folder."""
    given = os.environ.get("FLASHINFER_CACHE_DIR")
    if given:
        return pathlib.Path(given)
    user = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(user) / "flashinfer"


_PACKAGE = pathlib.Path(__file__).resolve().parent.parent

FLASHINFER_CACHE_DIR = _cache_folder()
FLASHINFER_BASE_DIR = FLASHINFER_CACHE_DIR
FLASHINFER_WORKSPACE_DIR = FLASHINFER_CACHE_DIR
FLASHINFER_JIT_DIR = FLASHINFER_CACHE_DIR / "kernels"
FLASHINFER_GEN_SRC_DIR = FLASHINFER_CACHE_DIR / "generated"
FLASHINFER_CUBIN_DIR = FLASHINFER_CACHE_DIR / "packs"
FLASHINFER_AOT_DIR = _PACKAGE / "lib"
# Device code is embedded in the library, so that these hold no files.
FLASHINFER_DATA = _PACKAGE / "data"
FLASHINFER_CSRC_DIR = FLASHINFER_DATA / "csrc"
FLASHINFER_INCLUDE_DIR = FLASHINFER_DATA / "include"
CUTLASS_INCLUDE_DIRS = []
SPDLOG_INCLUDE_DIR = FLASHINFER_DATA / "spdlog"
CCCL_INCLUDE_DIRS = []
