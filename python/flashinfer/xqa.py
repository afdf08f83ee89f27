# SPDX-License-Identifier: Apache-2.0
"""Decode of queries with a beam dimension: the original's module of this name."""
from .attention.xqa import xqa, xqa_mla
