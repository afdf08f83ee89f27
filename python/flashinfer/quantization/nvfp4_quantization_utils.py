# SPDX-License-Identifier: Apache-2.0
"""Settings of NVFP4 that choose between scales of amax / 6 and amax / 4 for each block."""
from __future__ import annotations

import dataclasses
import enum
from typing import Any


class NVFP44Over6ErrMode(enum.IntEnum):
    """Which error decides between the two scales of a block."""

    MAE = 0
    MSE = 1


class NVFP4Recipe(enum.Enum):
    """The settings that are not an NVFP44Over6Config."""

    FROM_ENV = "from_env"
    STANDARD = "standard"


@dataclasses.dataclass(frozen=True)
class NVFP44Over6Config:
    """Attributes:

    e4m3_max: the largest scale of a block, 448 or 256.
    err_mode: an NVFP44Over6ErrMode, or its name.
    err_use_fast_math: errors in float16.
    """

    e4m3_max: int = 448
    err_mode: NVFP44Over6ErrMode = NVFP44Over6ErrMode.MAE
    err_use_fast_math: bool = False

    def __post_init__(self):
        if self.e4m3_max not in (256, 448):
            raise ValueError(f"e4m3_max is {self.e4m3_max}, accepted: 256, 448")
        try:
            by_name = isinstance(self.err_mode, str)
            mode = (NVFP44Over6ErrMode[self.err_mode.upper()] if by_name
                    else NVFP44Over6ErrMode(self.err_mode))
        except (KeyError, ValueError):
            raise ValueError(f"err_mode is {self.err_mode!r}, accepted: MAE, MSE") from None
        object.__setattr__(self, "err_mode", mode)

    @property
    def err_mode_name(self) -> Any:
        return self.err_mode.name


def nvfp4_e4m3_max(nvfp4_4over6_config: Any = None) -> Any:
    """The largest scale of a block: 448, or what the settings say."""
    return 448.0 if nvfp4_4over6_config is None else float(nvfp4_4over6_config.e4m3_max)
