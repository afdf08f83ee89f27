# SPDX-License-Identifier: Apache-2.0
"""Shared prefixes and merging of states: the original's module of this name."""
from .attention.cascade import MultiLevelCascadeAttentionWrapper
from .attention.merge import merge_state, merge_state_in_place, merge_states
from .attention.shared_prefix import (
    BatchDecodeWithSharedPrefixPagedKVCacheWrapper,
    BatchPrefillWithSharedPrefixPagedKVCacheWrapper,
)
