# SPDX-License-Identifier: Apache-2.0
"""Compiling ahead, as the command ``flashinfer pack build`` does."""
from __future__ import annotations

import os
import pathlib
from typing import Any

from ._pending import refuse
from .command import run_program


def _archs():
    """FLASHINFER_CUDA_ARCH_LIST ("9.0a 12.0"), or that of the current device."""
    given = os.environ.get("FLASHINFER_CUDA_ARCH_LIST", "").replace(",", " ").split()
    if not given:
        from .utils import get_compute_capability

        import torch

        if not torch.cuda.is_available():
            raise RuntimeError("FLASHINFER_CUDA_ARCH_LIST: is not set, and there is no CUDA device")
        major, minor = get_compute_capability(torch.device("cuda"))
        given = [f"{major}.{minor}{'a' if major >= 9 else ''}"]
    return ",".join(arch.replace(".", "") for arch in given)


def compile_and_package_modules(out_dir: Any, build_dir: Any, project_root: Any, config: Any = None,
                                verbose: bool = False, skip_prebuilt: bool = True) -> Any:
    """Compiles the kernels of the recipes of a source tree into packs, one for each architecture of
    FLASHINFER_CUDA_ARCH_LIST (that of the current device when it is not set).

    Args:
        out_dir: folder of the packs; `build_dir` when None.
        build_dir: that folder, when `out_dir` is None.
        project_root: of the source tree; its recipes are ``packs/*.txt``.
        config: None: recipes say what is compiled. Others raise NotImplementedError.
        verbose: prints what the command prints.
        skip_prebuilt: accepted: a pack is made as a whole.

    Returns:
        The folder of the packs.
    """
    refuse("compile_and_package_modules", config=config)
    recipes = sorted(pathlib.Path(project_root).glob("packs/*.txt"))
    if not recipes:
        raise ValueError(f"project_root: {project_root} holds no packs/*.txt")
    folder = pathlib.Path(build_dir if out_dir is None else out_dir)
    folder.mkdir(parents=True, exist_ok=True)
    printed = run_program("pack", "build", "--arch", _archs(), "--recipe", *recipes, "-o", folder)
    if verbose:
        print(printed, end="")
    return folder
