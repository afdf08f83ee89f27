# SPDX-License-Identifier: Apache-2.0
"""Logging of calls.

The library itself logs every call, from whichever language: FLASHINFER_LOGLEVEL and
FLASHINFER_LOGDEST (docs/debugging.md); level 10 dumps arguments, and ``flashinfer replay`` makes
the calls again.
"""
from ._pending import pending


def flashinfer_api(func=None, *, trace=None):
    """Returns the function as it is: what it calls is logged by the library."""
    return (lambda function: function) if func is None else func


def flush_graph_dumps(synchronize=True):
    """0: dumps are written when calls are made, and none wait."""
    return 0


def clear_graph_dumps():
    """0: as flush_graph_dumps()."""
    return 0


replay_from_dump = pending("replay_from_dump", "is not there; use the command: flashinfer replay")
replay_sequence = pending("replay_sequence", "is not there; use the command: flashinfer replay")
