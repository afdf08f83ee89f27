# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts over several devices. Still to come: calls raise NotImplementedError."""
from __future__ import annotations

from typing import Any

from ._pending import pending_names

pending_names(globals(), functions="create_fleet", classes="Fleet Handle MoEEpLayer")


def available_backends() -> Any:
    """None: there is no transport yet."""
    return ()
