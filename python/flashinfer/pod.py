# SPDX-License-Identifier: Apache-2.0
"""Prefill and decode in one call: the original's module of this name."""
from .attention.pod import BatchPODWithPagedKVCacheWrapper, PODWithPagedKVCacheWrapper
