# SPDX-License-Identifier: Apache-2.0
"""Merging of states: the original's module of this name."""
from ..attention.merge import (
    merge_state,
    merge_state_in_place,
    merge_states,
    variable_length_merge_states,
)
