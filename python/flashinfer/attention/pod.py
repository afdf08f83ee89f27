# SPDX-License-Identifier: Apache-2.0
"""Prefill and decode in one call (Kamath et al., POD-Attention, 2025)."""
from __future__ import annotations

from typing import Any

from .._tensors import Tensor
from .arguments import deprecated, refuse
from .batch_decode import BatchDecodeWithPagedKVCacheWrapper
from .batch_prefill import BatchPrefillWithPagedKVCacheWrapper
from .single import single_prefill_with_kv_cache


class PODWithPagedKVCacheWrapper:
    """The prefill of one request and the decode of a batch. They run one after the other: the
    results are those of the two by themselves.

    Args:
        float_workspace_buffer: as of BatchDecodeWithPagedKVCacheWrapper.
        kv_layout: of the decode's cache, ``"NHD"`` or ``"HND"``.
        use_cuda_graph, paged_kv_indptr_buffer, paged_kv_indices_buffer,
            paged_kv_last_page_len_buffer: as of BatchDecodeWithPagedKVCacheWrapper.
        jit_args: None; raises NotImplementedError.
    """

    def __init__(self, float_workspace_buffer: Tensor, kv_layout: str = "NHD",
                 use_cuda_graph: bool = False, paged_kv_indptr_buffer: Tensor | None = None,
                 paged_kv_indices_buffer: Tensor | None = None,
                 paged_kv_last_page_len_buffer: Tensor | None = None, jit_args: Any = None) -> None:
        refuse(jit_args=jit_args)
        self._decode = BatchDecodeWithPagedKVCacheWrapper(
            float_workspace_buffer, kv_layout, use_cuda_graph, True, paged_kv_indptr_buffer,
            paged_kv_indices_buffer, paged_kv_last_page_len_buffer)
        self._kv_layout = kv_layout

    @property
    def is_cuda_graph_enabled(self) -> bool:
        """Whether index tensors are copied into buffers that a CUDA graph reads."""
        return self._decode.is_cuda_graph_enabled

    def reset_workspace_buffer(self, float_workspace_buffer: Tensor,
                               int_workspace_buffer: Tensor | None = None) -> None:
        """Takes another workspace, from the next plan() on."""
        self._decode.reset_workspace_buffer(float_workspace_buffer, int_workspace_buffer)

    def plan(self, indptr: Tensor, indices: Tensor, last_page_len: Tensor, num_qo_heads: int,
             num_kv_heads: int, head_dim: int, page_size: int, pos_encoding_mode: str = "NONE",
             window_left: int = -1, q_data_type: Any = "float16", kv_data_type: Any = None,
             data_type: Any = None, sm_scale: float | Tensor | None = None,
             rope_scale: float | None = None, rope_theta: float | None = None,
             non_blocking: bool = True) -> None:
        """Fixes the decode batch; as BatchDecodeWithPagedKVCacheWrapper.plan()."""
        self._planned = {"pos_encoding_mode": pos_encoding_mode, "window_left": window_left,
                         "sm_scale": sm_scale, "rope_scale": rope_scale, "rope_theta": rope_theta}
        self._decode.plan(indptr, indices, last_page_len, num_qo_heads, num_kv_heads, head_dim,
                          page_size, q_data_type=q_data_type, kv_data_type=kv_data_type,
                          data_type=data_type, non_blocking=non_blocking, **self._planned)

    begin_forward = plan

    def run(self, q_p: Tensor, k_p: Tensor, v_p: Tensor, q_d: Tensor,
            paged_kv_cache_d: Tensor | tuple[Tensor, Tensor], custom_mask_p: Tensor | None = None,
            packed_custom_mask_p: Tensor | None = None, causal_p: bool = False,
            kv_layout_p: str = "NHD", pos_encoding_mode_p: str = "NONE",
            sm_scale_p: float | None = None, window_left_p: int = -1,
            rope_scale_p: float | None = None, rope_theta_p: float | None = None,
            return_lse_p: bool = False, custom_mask_d: Tensor | None = None,
            packed_custom_mask_d: Tensor | None = None, causal_d: bool = False,
            kv_layout_d: str | None = None, pos_encoding_mode_d: str | None = None,
            sm_scale_d: float | None = None, window_left_d: int | None = None,
            rope_scale_d: float | None = None, rope_theta_d: float | None = None,
            q_scale: float | Tensor | None = None, k_scale: float | Tensor | None = None,
            v_scale: float | Tensor | None = None, return_lse_d: bool = False,
            use_fp16_qk_reduction: bool = False, enable_pdl: bool | None = None,
            *args: Any) -> tuple[Tensor, Tensor]:
        """Both attentions.

        Arguments with `_p` are those of single_prefill_with_kv_cache().

        Args:
            q_d: ``[num_requests, num_qo_heads, head_dim]``.
            paged_kv_cache_d: as of BatchDecodeWithPagedKVCacheWrapper.run().
            custom_mask_d, packed_custom_mask_d, causal_d: not given; a decode has no mask. Raise
                NotImplementedError.
            kv_layout_d, pos_encoding_mode_d, sm_scale_d, window_left_d, rope_scale_d,
                rope_theta_d: deprecated: None, or what plan() was given.
            q_scale, k_scale, v_scale: of the decode, as of its run().
            return_lse_p, return_lse_d: make that output a pair (out, lse).
            use_fp16_qk_reduction: accepted: scores are always summed in float32.

        Returns:
            (output of the prefill, output of the decode).
        """
        refuse(custom_mask_d=custom_mask_d, packed_custom_mask_d=packed_custom_mask_d)
        if causal_d:
            raise NotImplementedError("causal_d: is True, the decode of one token is non-causal")
        if args:
            raise NotImplementedError(f"run: got {len(args)} arguments for a variant, accepted: "
                                      "none")
        planned = {**self._planned, "kv_layout": self._kv_layout}
        for name, value in (("kv_layout", kv_layout_d),
                            ("pos_encoding_mode", pos_encoding_mode_d),
                            ("sm_scale", sm_scale_d), ("window_left", window_left_d),
                            ("rope_scale", rope_scale_d), ("rope_theta", rope_theta_d)):
            if value is None:
                continue
            deprecated(f"{name}_d: is deprecated, plan() decides it")
            if value != planned[name]:
                raise ValueError(f"{name}_d: is {value}, which differs from the value planned, "
                                 f"{planned[name]}")
        prefill = single_prefill_with_kv_cache(
            q_p, k_p, v_p, custom_mask=custom_mask_p, packed_custom_mask=packed_custom_mask_p,
            causal=causal_p, kv_layout=kv_layout_p, pos_encoding_mode=pos_encoding_mode_p,
            sm_scale=sm_scale_p, window_left=window_left_p, rope_scale=rope_scale_p,
            rope_theta=rope_theta_p, return_lse=return_lse_p)
        decode = self._decode.run(q_d, paged_kv_cache_d, q_scale=q_scale, k_scale=k_scale,
                                  v_scale=v_scale, return_lse=return_lse_d)
        return prefill, decode

    def end_forward(self) -> None:
        """Does nothing: of the original's older interface."""


class BatchPODWithPagedKVCacheWrapper:
    """The prefill of a batch and the decode of another over paged caches. They run one after the
    other: the results are those of the two by themselves.

    Args:
        float_workspace_buffer: as of BatchPrefillWithPagedKVCacheWrapper.
        kv_layout: of both caches, ``"NHD"`` or ``"HND"``.
    """

    def __init__(self, float_workspace_buffer: Tensor, kv_layout: str = "NHD") -> None:
        self._prefill = BatchPrefillWithPagedKVCacheWrapper(float_workspace_buffer, kv_layout)
        self._decode = BatchPrefillWithPagedKVCacheWrapper(float_workspace_buffer, kv_layout)
        self._is_causal = False

    @property
    def is_cuda_graph_enabled(self) -> bool:
        """False: there are no buffers for index tensors."""
        return False

    def reset_workspace_buffer(self, float_workspace_buffer: Tensor,
                               int_workspace_buffer: Tensor | None = None) -> None:
        """Takes another workspace, from the next plan() on."""
        for half in (self._prefill, self._decode):
            half.reset_workspace_buffer(float_workspace_buffer, int_workspace_buffer)

    def plan(self, qo_indptr_p: Any, kv_indptr_p: Tensor, kv_indices_p: Tensor,
             last_page_len_p: Tensor, qo_indptr_d: Tensor, kv_indptr_d: Tensor,
             kv_indices_d: Tensor, last_page_len_d: Tensor, num_qo_heads: int, num_kv_heads: int,
             head_dim: int, page_size: int, pos_encoding_mode: str = "NONE", window_left: int = -1,
             q_data_type: Any = "float16", kv_data_type: Any = None, data_type: Any = None,
             sm_scale: float | Tensor | None = None, rope_scale: float | None = None,
             rope_theta: float | None = None, non_blocking: bool = True) -> None:
        """Fixes both batches; tables and options are as of
        BatchPrefillWithPagedKVCacheWrapper.plan(), `data_type` the older name of kv_data_type."""
        kv_data_type = data_type if kv_data_type is None else kv_data_type
        options = {"pos_encoding_mode": pos_encoding_mode, "window_left": window_left,
                   "q_data_type": q_data_type, "kv_data_type": kv_data_type,
                   "sm_scale": sm_scale, "rope_scale": rope_scale, "rope_theta": rope_theta}
        sizes = (num_qo_heads, num_kv_heads, head_dim, page_size)
        self._tables_p = (qo_indptr_p, kv_indptr_p, kv_indices_p, last_page_len_p, *sizes)
        self._options = options
        self._masks = (None, None)
        self._prefill.plan(*self._tables_p, causal=self._is_causal, **options)
        self._decode.plan(qo_indptr_d, kv_indptr_d, kv_indices_d, last_page_len_d, *sizes,
                          **options)

    begin_forward = plan

    def run(self, q_p: Tensor, paged_kv_cache_p: Tensor | tuple[Tensor, Tensor], q_d: Tensor,
            paged_kv_cache_d: Tensor | tuple[Tensor, Tensor], custom_mask_p: Tensor | None = None,
            packed_custom_mask_p: Tensor | None = None, causal_p: bool = False,
            q_scale: float | Tensor | None = None, k_scale: float | Tensor | None = None,
            v_scale: float | Tensor | None = None, return_lse: bool = False,
            use_fp16_qk_reduction: bool = False, enable_pdl: bool | None = None) -> Any:
        """Both attentions; the prefill is planned again when its mask is another than last time.

        Args:
            q_p, q_d: ``[num_tokens, num_qo_heads, head_dim]``.
            paged_kv_cache_p, paged_kv_cache_d: as of BatchPrefillWithPagedKVCacheWrapper.run().
            custom_mask_p, packed_custom_mask_p, causal_p: of the prefill, as of its plan().
            q_scale, k_scale, v_scale: of both, as of their run().
            return_lse: makes both outputs pairs (out, lse).
            use_fp16_qk_reduction: accepted: scores are always summed in float32.

        Returns:
            (output of the prefill, output of the decode).
        """
        masks = (custom_mask_p, packed_custom_mask_p)
        if causal_p != self._is_causal or any(a is not b for a, b in zip(masks, self._masks)):
            self._is_causal = causal_p
            self._masks = masks
            self._prefill.plan(*self._tables_p, causal=causal_p, custom_mask=custom_mask_p,
                               packed_custom_mask=packed_custom_mask_p, **self._options)
        scales = {"q_scale": q_scale, "k_scale": k_scale, "v_scale": v_scale,
                  "return_lse": return_lse}
        return (self._prefill.run(q_p, paged_kv_cache_p, **scales),
                self._decode.run(q_d, paged_kv_cache_d, **scales))

    def end_forward(self) -> None:
        """Does nothing: of the original's older interface."""
