# SPDX-License-Identifier: Apache-2.0
"""Kernels as objects, for code that warms them up.

Kernels are compiled when an operator first needs them, in well under a second, and kept in a
folder: see ``flashinfer compile`` and ``flashinfer pack`` for doing it ahead.
"""
from . import attention, core, env, utils, xqa
from .._errors import MissingJITCacheError
from .attention import *
from .core import (
    JitSpec,
    JitSpecRegistry,
    JitSpecStatus,
    build_jit_specs,
    clear_cache_dir,
    gen_jit_spec,
    jit_spec_registry,
)
from .modules import *
from .xqa import gen_xqa_module, gen_xqa_module_mla
