# SPDX-License-Identifier: Apache-2.0
"""Attention where blocks of any sizes see each other, chosen for each key head by itself."""
from __future__ import annotations

from typing import Any

from .._tensors import Tensor, empty
from .arguments import as_numpy, like
from .planned import PlannedWrapper, make_lse, options
from .record import MASK_CAUSAL, MASK_NONE


def _folded(q, num_kv_heads):
    """[num_qo_heads, q_len, d] as [num_kv_heads · q_len, group, d]: a view where heads have keys
    of their own."""
    num_qo_heads, q_len, dim = q.shape
    group = num_qo_heads // num_kv_heads
    if group == 1:
        return q.reshape(num_qo_heads * q_len, 1, dim)
    return q.reshape(num_kv_heads, group, q_len, dim).swapaxes(1, 2).reshape(
        num_kv_heads * q_len, group, dim)


def _unfolded(x, num_kv_heads):
    """The reverse of _folded(); x may lack the last dimension."""
    rows, group = x.shape[:2]
    q_len = rows // num_kv_heads
    x = x.reshape(num_kv_heads, q_len, group, *x.shape[2:])
    return x.swapaxes(1, 2).reshape(num_kv_heads * group, q_len, *x.shape[3:])


class VariableBlockSparseAttentionWrapper(PlannedWrapper):
    """Attention under masks of blocks whose rows and columns have sizes of their own, one mask for
    each key head. Tensors have heads first.

    Args:
        float_workspace_buffer: memory for partial results; its device is the wrapper's.
        backend: ``"auto"``, ``"fa2"`` and ``"fa3"`` mean the fastest here; or one of ours.
    """

    def __init__(self, float_workspace_buffer: Tensor, backend: str = "auto") -> None:
        super().__init__(float_workspace_buffer, "NHD", backend)

    def plan(self, block_mask_map: Tensor, block_row_sz: Tensor, block_col_sz: Tensor,
             num_qo_heads: int, num_kv_heads: int, head_dim: int, causal: bool = False,
             pos_encoding_mode: str = "NONE", use_fp16_qk_reduction: bool = False,
             logits_soft_cap: float | None = None, sm_scale: float | Tensor | None = None,
             rope_scale: float | None = None, rope_theta: float | None = None,
             non_blocking: bool = True, q_data_type: Any = "float16",
             kv_data_type: Any = None) -> None:
        """Fixes the masks for the run() calls that follow.

        Args:
            block_mask_map: ``[num_kv_heads, num_block_rows, num_block_columns]`` bool.
            block_row_sz: ``[num_kv_heads, num_block_rows]`` int32: query tokens of each row of
                blocks; all heads have as many together.
            block_col_sz: ``[num_kv_heads, num_block_columns]`` int32: key tokens, likewise.
            causal: within a row of blocks: its query i sees key j iff j <= keys - queries + i,
                counting the keys of its blocks.
            use_fp16_qk_reduction: accepted: scores are always summed in float32.

        The others are as of BatchPrefillWithPagedKVCacheWrapper.plan().
        """
        import numpy

        blocks = as_numpy(block_mask_map).astype(bool)
        rows = as_numpy(block_row_sz).astype(numpy.int64)
        columns = as_numpy(block_col_sz).astype(numpy.int64)
        if (blocks.ndim != 3 or blocks.shape[0] != num_kv_heads
                or rows.shape != blocks.shape[:2] or columns.shape != (blocks.shape[0],
                                                                       blocks.shape[2])):
            raise ValueError(
                f"block_mask_map, block_row_sz, block_col_sz: have shapes {blocks.shape}, "
                f"{rows.shape}, {columns.shape}, expected [{num_kv_heads}, rows, columns], "
                f"[{num_kv_heads}, rows], [{num_kv_heads}, columns]")
        for name, sizes in (("block_row_sz", rows), ("block_col_sz", columns)):
            if (sizes < 0).any() or (sizes.sum(1) != sizes[0].sum()).any():
                raise ValueError(f"{name}: heads have {sizes.sum(1)} tokens, expected as many")
        kv_len = int(columns[0].sum())
        # A token of a key head is a page: token j of head h is page h · kv_len + j.
        head_mask = [numpy.repeat(blocks[h], columns[h], axis=1) for h in range(num_kv_heads)]
        seen = numpy.concatenate(head_mask)  # [heads · block rows, kv_len]
        first = numpy.repeat(numpy.arange(num_kv_heads) * kv_len, blocks.shape[1])
        request, token = seen.nonzero()
        indices = (token + first[request]).astype(numpy.int32)
        indptr = numpy.concatenate([[0], numpy.cumsum(seen.sum(1))]).astype(numpy.int32)
        qo_indptr = numpy.concatenate([[0], numpy.cumsum(rows.reshape(-1))]).astype(numpy.int32)
        if num_qo_heads % num_kv_heads != 0:
            raise ValueError(f"num_qo_heads: is {num_qo_heads}, expected a multiple of "
                             f"num_kv_heads, {num_kv_heads}")
        fields = self._problem(
            q_data_type, kv_data_type, None, num_qo_heads // num_kv_heads, 1, head_dim, head_dim,
            1, MASK_CAUSAL if causal else MASK_NONE, 0, pos_encoding_mode, -1, logits_soft_cap,
            sm_scale, rope_scale, rope_theta)
        self._shapes = {"q": (num_qo_heads, int(rows[0].sum()), head_dim),
                        "k": (num_kv_heads, kv_len, head_dim)}
        self._num_kv_heads = num_kv_heads
        self._plan_with(fields, qo_indptr, indptr, like(indices, self._float_workspace_buffer),
                        numpy.ones(len(indptr) - 1, numpy.int32))

    begin_forward = plan

    def run(self, q: Tensor, k: Tensor, v: Tensor, out: Tensor | None = None,
            lse: Tensor | None = None, return_lse: bool = False,
            enable_pdl: bool | None = None) -> Any:
        """Attention under the planned masks.

        Args:
            q: ``[num_qo_heads, q_len, head_dim]``.
            k, v: ``[num_kv_heads, kv_len, head_dim]``.
            out: as q; made when None.
            lse: ``[num_qo_heads, q_len]`` float32; made when wanted.
            return_lse: also returns `lse`, base-2 logarithms; -inf for a row that sees no key.
            enable_pdl: accepted; launches overlap where the GPU allows it.

        Returns:
            `out`, or (out, lse).
        """
        if self._record is None:
            raise ValueError("run() was called before a successful plan()")
        for name, t, key in (("q", q, "q"), ("k", k, "k"), ("v", v, "k")):
            if tuple(t.shape) != self._shapes[key]:
                raise ValueError(f"{name}: has shape {tuple(t.shape)}, expected "
                                 f"{self._shapes[key]}")
        heads = self._num_kv_heads
        folded = _folded(q, heads)
        pages = [t.reshape(-1, 1, 1, t.shape[-1]) for t in (k, v)]
        o = empty(folded.shape, folded, self._out_dtype)
        s = make_lse(folded) if return_lse or lse is not None else None
        self._run(folded, *pages, o, s)
        results = []
        for given, made in ((out, o), (lse, s)):
            if made is None:
                continue
            made = _unfolded(made, heads)
            if given is not None:
                if tuple(given.shape) != tuple(made.shape) or given.dtype != made.dtype:
                    raise ValueError(f"out, lse: one has shape {tuple(given.shape)} and dtype "
                                     f"{given.dtype}, expected {tuple(made.shape)}, {made.dtype}")
                given[...] = made
                made = given
            results.append(made)
        return tuple(results) if return_lse else results[0]

    def forward(self, q: Tensor, k: Tensor, v: Tensor, pos_encoding_mode: str = "NONE",
                use_fp16_qk_reduction: bool = False, logits_soft_cap: float | None = None,
                sm_scale: float | Tensor | None = None, rope_scale: float | None = None,
                rope_theta: float | None = None) -> Tensor:
        """run() under these options in place of the plan's: of the original's older interface."""
        self._change(**options(pos_encoding_mode, -1, logits_soft_cap, sm_scale, rope_scale,
                               rope_theta))
        return self.run(q, k, v)
