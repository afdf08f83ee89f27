# SPDX-License-Identifier: Apache-2.0
"""Logging of calls.

The library itself logs every call, from whichever language: FLASHINFER_LOGLEVEL and
FLASHINFER_LOGDEST (docs/debugging.md); level 10 dumps arguments, and ``flashinfer replay`` makes
the calls again.
"""
from __future__ import annotations

from typing import Any

from ._pending import refuse


def flashinfer_api(func: Any = None, *, trace: Any = None) -> Any:
    """Returns the function as it is: what it calls is logged by the library."""
    return (lambda function: function) if func is None else func


def flush_graph_dumps(synchronize: bool = True) -> int:
    """0: dumps are written when calls are made, and none wait."""
    return 0


def clear_graph_dumps() -> int:
    """0: as flush_graph_dumps()."""
    return 0


def replay_sequence(root_dir: Any, device: str = "cuda") -> list[dict]:
    """Makes all calls of a folder of dumps again, as the command ``flashinfer replay`` does.

    Args:
        root_dir: what FLASHINFER_DUMP_DIR was.
        device: accepted: calls are made in host memory, whichever device they were dumped from.

    Returns:
        A dict for each call, in their order: "call", "op", "result" ("same", "close", "mismatch",
        "failed" or "skipped"), "max_difference", "note".
    """
    import json

    from .command import run_program

    return json.loads(run_program("replay", "--dir", root_dir, "--json", accepted=(0, 1)))["calls"]


def replay_from_dump(dump_dir: Any, compare_outputs: bool = False, device: str = "cuda",
                     run: bool = False, object_registry: Any = None) -> Any:
    """Reads one dumped call, or makes it again.

    Args:
        dump_dir: the folder of the call.
        compare_outputs, run: make the call again; its results are compared either way.
        device: accepted, as in replay_sequence().
        object_registry: None; else NotImplementedError.

    Returns:
        What the call's call.json holds: "op", "arguments" and others; with `compare_outputs` or
        `run` the dict of replay_sequence().
    """
    import json
    import pathlib
    import tempfile

    refuse("replay_from_dump", object_registry=object_registry)
    folder = pathlib.Path(dump_dir).resolve()
    if not (folder / "call.json").exists():
        raise ValueError(f"dump_dir: {dump_dir} holds no call.json")
    if not (run or compare_outputs):
        return json.loads((folder / "call.json").read_text())
    with tempfile.TemporaryDirectory() as alone:
        (pathlib.Path(alone) / folder.name).symlink_to(folder)
        return replay_sequence(alone)[0]
