# SPDX-License-Identifier: Apache-2.0
"""Kernels for serving large language models; see README.md.

Importing this loads no library and no framework: the first call does.
"""
from . import norm
from ._errors import (
    BackendSupportedError,
    CompileError,
    DeviceError,
    GPUArchitectureError,
    LibraryError,
    MissingJITCacheError,
)
from .norm import rmsnorm
from .version import __version__
