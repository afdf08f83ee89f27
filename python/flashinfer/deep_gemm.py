# SPDX-License-Identifier: Apache-2.0
"""Products of fp8 groups under the names of DeepGEMM."""
from __future__ import annotations

from typing import Any

from ._pending import refuse
from ._tensors import Tensor
from .gemm.groupwise import batch_deepgemm_fp8_nt_groupwise, group_deepgemm_fp8_nt_groupwise


def m_grouped_fp8_gemm_nt_contiguous(a_fp8: Any, b_fp8: Any, d: Tensor, m_indices: Tensor,
                                     recipe: Any = None, compiled_dims: str = "nk") -> None:
    """d[t] = a[t] @ b[m_indices[t]]ᵀ; rows of -1 are left as they are.

    Args:
        a_fp8: (``[num_rows, k]`` float8_e4m3fn, ``[num_rows, k / 128]`` float32 scales).
        b_fp8: (``[num_groups, n, k]`` float8_e4m3fn, ``[num_groups, n / 128, k / 128]``).
        d: ``[num_rows, n]`` bfloat16; written.
        m_indices: ``[num_rows]`` int32.
        compiled_dims: accepted; kernels are compiled as the library chooses.
    """
    refuse("m_grouped_fp8_gemm_nt_contiguous", recipe=recipe)
    group_deepgemm_fp8_nt_groupwise(a_fp8[0], b_fp8[0], a_fp8[1], b_fp8[1], m_indices, out=d)


def m_grouped_fp8_gemm_nt_masked(a_fp8: Any, b_fp8: Any, d: Tensor, masked_m: Tensor,
                                 expected_m: int, recipe: Any = None,
                                 compiled_dims: str = "nk") -> None:
    """d[g, :masked_m[g]] = a[g, :masked_m[g]] @ b[g]ᵀ; other rows are left as they are.

    Args:
        a_fp8: (``[num_groups, max_rows, k]``, ``[num_groups, max_rows, k / 128]``).
        b_fp8: as above.
        d: ``[num_groups, max_rows, n]`` bfloat16; written.
        masked_m: ``[num_groups]`` int32.
        expected_m: accepted; a hint for GPUs.
    """
    refuse("m_grouped_fp8_gemm_nt_masked", recipe=recipe)
    batch_deepgemm_fp8_nt_groupwise(a_fp8[0], b_fp8[0], a_fp8[1], b_fp8[1], masked_m, expected_m,
                                    out=d)
