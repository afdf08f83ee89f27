# SPDX-License-Identifier: Apache-2.0
"""The attention kernels under the names of the original's xqa modules."""
from __future__ import annotations

from typing import Any

from .core import JitSpec
from .modules import spec_named
from .utils import filename_safe_dtype_map


def swap_ab_eligible(q_seq_len: int, head_group_ratio: int) -> bool:
    """False: a choice of the original's kernels that ours have not."""
    return False


def ragged_q_changes_build(q_seq_len: int, head_group_ratio: int) -> bool:
    """False: one kernel serves queries of any length."""
    return False


def gen_xqa_module(input_dtype: Any, kv_cache_dtype: Any, page_size: int, head_dim: int,
                   head_group_ratio: int, use_sliding_window: bool, output_dtype: Any,
                   q_seq_len: int = 1, use_ragged_q: bool = False) -> JitSpec:
    """An object that stands for the original's module of xqa()."""
    names = filename_safe_dtype_map
    return spec_named(
        f"xqa_input_{names[input_dtype]}_kv_cache_{names[kv_cache_dtype]}"
        f"_output_{names[output_dtype]}_page_size_{page_size}_head_dim_{head_dim}"
        f"_head_group_ratio_{head_group_ratio}_use_sliding_window_{use_sliding_window}"
        f"_use_spec_dec_{q_seq_len > 1}_spec_q_seq_len_{q_seq_len}")


def gen_xqa_module_mla(input_dtype: Any, kv_cache_dtype: Any, page_size: int, head_dim: int,
                       head_group_ratio: int, use_sliding_window: bool = False) -> JitSpec:
    """An object that stands for the original's module of xqa_mla()."""
    names = filename_safe_dtype_map
    return spec_named(f"xqa_mla_input_{names[input_dtype]}_kv_cache_{names[kv_cache_dtype]}"
                      f"_page_size_{page_size}_head_dim_{head_dim}"
                      f"_head_group_ratio_{head_group_ratio}"
                      f"_use_sliding_window_{use_sliding_window}")
