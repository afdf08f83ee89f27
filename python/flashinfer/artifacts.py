# SPDX-License-Identifier: Apache-2.0
"""Kernels that are compiled ahead: packs, which the library finds in the cache folder. The original
downloads closed kernels under these names."""
from __future__ import annotations

from .command import run_program


def download_artifacts() -> None:
    """Fetches packs of kernels from FLASHINFER_CUBINS_REPOSITORY and installs those that verify, as
    the command ``flashinfer download-cubin`` does.

    Raises:
        RuntimeError: no repository is named, or packs cannot be fetched or do not verify.
    """
    run_program("download-cubin")


def clear_cubin() -> None:
    """Removes installed packs from the cache folder, as ``flashinfer clear-cubin`` does."""
    run_program("clear-cubin")
