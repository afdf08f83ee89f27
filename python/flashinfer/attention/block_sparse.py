# SPDX-License-Identifier: Apache-2.0
"""Attention where blocks of queries see blocks of keys: a batch of one request per block row."""
from __future__ import annotations

from typing import Any

from .._tensors import Tensor
from .arguments import as_numpy, check_mask, host, like, on_device, refuse
from .planned import PlannedWrapper, make_lse, options, scales_and_tensors
from .record import MASK_CAUSAL, MASK_CUSTOM, MASK_NONE


def convert_bsr_mask_layout(mask: Tensor, indptr: Tensor) -> Tensor:
    """A mask of blocks as one of rows.

    Args:
        mask: ``[num_blocks, R, C]`` bool: blocks one after another, row by row of the matrix.
        indptr: ``[num_block_rows + 1]`` int32: blocks of each row of blocks.

    Returns:
        ``[num_blocks · R · C]`` bool: for each row of blocks ``[R, blocks · C]``, row-major.
    """
    import numpy

    blocks = as_numpy(mask)
    begins = as_numpy(indptr)
    rows = [blocks[b:e].transpose(1, 0, 2).reshape(-1) for b, e in zip(begins, begins[1:])]
    return like(numpy.concatenate(rows) if rows else numpy.empty(0, bool), mask)


class BlockSparseAttentionWrapper(PlannedWrapper):
    """Attention under a mask of blocks in BSR format (compressed rows of R × C blocks).

    Args:
        float_workspace_buffer: memory for partial results; its device is the wrapper's.
        backend: ``"auto"``, ``"fa2"`` and ``"fa3"`` mean the fastest here; or one of ours.
    """

    def __init__(self, float_workspace_buffer: Tensor, backend: str = "auto") -> None:
        super().__init__(float_workspace_buffer, "NHD", backend)

    def plan(self, indptr: Tensor, indices: Tensor, M: int, N: int, R: int, C: int,
             num_qo_heads: int, num_kv_heads: int, head_dim: int, mask: Tensor | None = None,
             packed_mask: Tensor | None = None, causal: bool = False,
             pos_encoding_mode: str = "NONE", use_fp16_qk_reduction: bool = False,
             logits_soft_cap: float | None = None, sm_scale: float | Tensor | None = None,
             rope_scale: float | None = None, rope_theta: float | None = None,
             q_data_type: Any = "float16", kv_data_type: Any = None, o_data_type: Any = "float16",
             non_blocking: bool = True, block_mask: Tensor | None = None) -> None:
        """Fixes the mask for the run() calls that follow.

        Args:
            indptr: ``[ceil(M / R) + 1]`` int32: blocks of each row of blocks.
            indices: ``[indptr[-1]]`` int32: their columns.
            M: query tokens; the last row of blocks may have fewer than R.
            N: key tokens, a multiple of C.
            R, C: query and key tokens of a block.
            mask: ``[indptr[-1], R, C]`` bool: elements of blocks that are seen; None: all.
            packed_mask: the same in bits, lowest first, in the order of convert_bsr_mask_layout(),
                each row of blocks from a byte on.
            causal: within a row of blocks: its query i sees key j iff
                j <= keys - R + i, counting the keys of its blocks.
            use_fp16_qk_reduction: accepted: scores are always summed in float32.
            block_mask: None; raises NotImplementedError.

        The others are as of BatchPrefillWithPagedKVCacheWrapper.plan().
        """
        import numpy

        refuse(block_mask=block_mask)
        begins = as_numpy(indptr)
        num_rows = len(begins) - 1
        if min(M, N, R, C) < 1 or N % C != 0 or num_rows != (M + R - 1) // R:
            raise ValueError(f"M, N, R, C: are {M}, {N}, {R}, {C} with {num_rows} rows of blocks, "
                             "expected ceil(M / R) rows and N a multiple of C")
        qo_indptr = numpy.minimum(numpy.arange(num_rows + 1) * R, M).astype(numpy.int32)
        bits = None
        if packed_mask is not None:
            bits = check_mask("packed_mask", packed_mask, "uint8")
        elif mask is not None:
            if tuple(mask.shape) != (int(begins[-1]), R, C):
                raise ValueError(f"mask: has shape {tuple(mask.shape)}, expected "
                                 f"{(int(begins[-1]), R, C)}")
            if M % R != 0:
                raise ValueError(f"M: is {M}, expected a multiple of R, {R}, with a mask")
            bits = convert_bsr_mask_layout(check_mask("mask", mask, "bool"), indptr)
        mask_mode = MASK_CUSTOM if bits is not None else MASK_CAUSAL if causal else MASK_NONE
        fields = self._problem(
            q_data_type, kv_data_type, o_data_type, num_qo_heads, num_kv_heads, head_dim, head_dim,
            C, mask_mode, 0, pos_encoding_mode, -1, logits_soft_cap, sm_scale, rope_scale,
            rope_theta)
        self._sizes = (M, N, C)
        self._plan_with(fields, qo_indptr, host(indptr),
                        on_device(indices, self._float_workspace_buffer),
                        numpy.full(num_rows, C, numpy.int32), bits)

    begin_forward = plan

    def run(self, q: Tensor, k: Tensor, v: Tensor, scale_q: float | Tensor | None = None,
            scale_k: float | Tensor | None = None, scale_v: float | Tensor | None = None,
            out: Tensor | None = None, lse: Tensor | None = None, return_lse: bool = False,
            enable_pdl: bool | None = None) -> Tensor | tuple[Tensor, Tensor]:
        """Attention under the planned mask.

        Args:
            q: ``[M, num_qo_heads, head_dim]``.
            k, v: ``[N, num_kv_heads, head_dim]``.
            scale_q, scale_k, scale_v: of quantised inputs: a number, or one per head
                ``[num_qo_heads]``, ``[num_kv_heads]`` float32.
            out: ``[M, num_qo_heads, head_dim]``; made when None.
            lse: ``[M, num_qo_heads]`` float32; made when wanted.
            return_lse: also returns `lse`, base-2 logarithms; -inf for a row that sees no key.
            enable_pdl: accepted; launches overlap where the GPU allows it.

        Returns:
            `out`, or (out, lse).
        """
        if self._record is None:
            raise ValueError("run() was called before a successful plan()")
        _, num_keys, page = self._sizes
        for name, t in (("k", k), ("v", v)):
            if t.shape[0] != num_keys:
                raise ValueError(f"{name}: has {t.shape[0]} rows, expected N, {num_keys}")
        if out is None:
            out = self._make_out(q)
        if return_lse and lse is None:
            lse = make_lse(q)
        paged = [t.reshape(num_keys // page, page, *t.shape[1:]) for t in (k, v)]
        self._run(q, *paged, out, lse, *scales_and_tensors(scale_q, scale_k, scale_v))
        return (out, lse) if return_lse else out

    def forward(self, q: Tensor, k: Tensor, v: Tensor, scale_q: float | Tensor | None = None,
                scale_k: float | Tensor | None = None, scale_v: float | Tensor | None = None,
                pos_encoding_mode: str = "NONE", use_fp16_qk_reduction: bool = False,
                logits_soft_cap: float | None = None, sm_scale: float | Tensor | None = None,
                rope_scale: float | None = None, rope_theta: float | None = None) -> Tensor:
        """run() under these options in place of the plan's: of the original's older interface."""
        self._change(**options(pos_encoding_mode, -1, logits_soft_cap, sm_scale, rope_scale,
                               rope_theta))
        return self.run(q, k, v, scale_q, scale_k, scale_v)
