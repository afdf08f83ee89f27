# SPDX-License-Identifier: Apache-2.0
"""Enumerations, probes of devices, and small functions that engines and test suites use."""
from __future__ import annotations

import functools
import math
from enum import Enum
from typing import Any

from ._backend_requirement import (
    backend_requirement,
    experimental_backend,
    supported_compute_capability,
)
from ._errors import BackendSupportedError, GPUArchitectureError, LibraryError
from ._pending import not_yet, pending
from .row_shuffle import (
    get_shuffle_matrix_a_row_indices,
    get_shuffle_matrix_sf_a_row_indices,
)
from ._tensors import Tensor, dtype_name

log2e = 1 / math.log(2)


class PosEncodingMode(Enum):
    """How positions enter attention."""

    NONE = 0
    ROPE_LLAMA = 1
    ALIBI = 2


class MaskMode(Enum):
    """Which keys a query sees."""

    NON_CAUSAL = 0
    CAUSAL = 1
    CUSTOM = 2
    MULTIITEMSCORING = 3


class TensorLayout(Enum):
    """The order of a cache's dimensions: tokens (N) or heads (H) first."""

    NHD = 0
    HND = 1


class LogLevel(Enum):
    """Levels of the original's logger."""

    TRACE = 0
    DEBUG = 1
    INFO = 2
    WARN = 3
    ERROR = 4
    CRITICAL = 5


# --- numbers

def ceil_div(x: int, y: int) -> int:
    """x / y, rounded up, of integers."""
    return -(-x // y)


def round_up(x: int, y: int) -> int:
    """The smallest multiple of y that is at least x."""
    return -(-x // y) * y


def next_positive_power_of_2(x: int) -> int:
    """The smallest power of two that is at least x, and at least 1."""
    return 1 if x < 1 else 1 << (x - 1).bit_length()


def last_positive_power_of_2(x: int) -> int:
    """The largest power of two that is at most x, of a positive x."""
    return 1 << (x.bit_length() - 1)


def calculate_tile_tokens_dim(num_tokens: int, num_experts: int, top_k: int,
                              max_tile_tokens_dim: int = 128) -> int:
    """Rows of a tile that suit the tokens an expert gets on average: a power of two from 8 on."""
    per_expert = num_tokens * top_k // num_experts
    return max(8, min(max_tile_tokens_dim, next_positive_power_of_2(per_expert)))


def version_at_least(version: str, base_version: str) -> bool:
    """Whether a dotted version is `base_version` or newer; what follows the numbers is ignored."""

    def numbers(text):
        parts = []
        for part in str(text).split("+")[0].split("."):
            digits = "".join(ch for ch in part if ch.isdigit())
            if not digits:
                break
            parts.append(int(digits))
        return parts + [0] * (4 - len(parts))

    return numbers(version) >= numbers(base_version)


# --- dtypes and tensors

def is_float8(x: Tensor) -> bool:
    """Whether a tensor is of one of the 8-bit floating-point dtypes."""
    return dtype_name(x.dtype) in ("float8_e4m3fn", "float8_e5m2")


def canonicalize_torch_dtype(dtype: Any) -> Any:
    """The torch dtype of a name, or the dtype itself."""
    import torch

    if isinstance(dtype, str):
        return getattr(torch, dtype)
    if isinstance(dtype, torch.dtype):
        return dtype
    raise TypeError(f"dtype is a {type(dtype).__name__}, accepted: a name, a torch.dtype")


def get_indptr(x: Tensor) -> Tensor:
    """[0, x[0], x[0] + x[1], …] as int64."""
    import torch

    indptr = torch.zeros(x.shape[0] + 1, dtype=torch.int64, device=x.device)
    indptr[1:] = x.to(torch.int64).cumsum(0)
    return indptr


def get_alibi_slopes(n_heads: int, device: Any = None) -> Tensor:
    """The slopes of ALiBi (Press et al., 2022) of each head, float32."""
    import torch

    n = 2 ** int(math.log2(n_heads))
    slopes = [2.0 ** (-8.0 * i / n) for i in range(1, n + 1)]
    slopes += [2.0 ** (-4.0 * i / n) for i in range(1, 2 * (n_heads - n) + 1, 2)]
    return torch.tensor(slopes, dtype=torch.float32, device=device)


def check_shape_dtype_device(x: Tensor, expected_shape: Any, expected_dtype: Any,
                             expected_device: Any, name: str) -> None:
    """Raises ValueError unless `x` is as expected; what is expected as None is not looked at."""
    if expected_shape is not None and tuple(x.shape) != tuple(expected_shape):
        raise ValueError(f"Invalid shape of {name}: expected {tuple(expected_shape)}, "
                         f"got {tuple(x.shape)}")
    if expected_dtype is not None and x.dtype != expected_dtype:
        raise ValueError(f"Invalid dtype of {name}: expected {expected_dtype}, got {x.dtype}")
    if expected_device is not None and x.device != expected_device:
        raise ValueError(f"Invalid device of {name}: expected {expected_device}, got {x.device}")


_check_shape_dtype_device = check_shape_dtype_device


def _check_pos_encoding_mode(pos_encoding_mode):
    if not hasattr(PosEncodingMode, pos_encoding_mode):
        raise KeyError(f"Invalid pos_encoding_mode {pos_encoding_mode}")


def _check_kv_layout(kv_layout):
    if not hasattr(TensorLayout, kv_layout):
        raise KeyError(f"Invalid kv_layout {kv_layout}")


def _with_page_dimension(x, kv_layout, rank):
    """`x` of `rank` dimensions; one of fewer has pages of one token and gets their dimension."""
    if x.ndim == rank:
        return x
    if x.ndim != rank - 1:
        raise ValueError(f"a KV cache has {x.ndim} dimensions, expected {rank - 1} or {rank}")
    _check_kv_layout(kv_layout)
    axis = rank - 3 if kv_layout == "NHD" else rank - 2
    return x.reshape(tuple(x.shape[:axis]) + (1,) + tuple(x.shape[axis:]))


def _unpack_paged_kv_cache(paged_kv_cache, kv_layout):
    """Keys and values, [num_pages, …] of four dimensions each, of a pair or of one tensor that
    holds both as its second dimension."""
    if isinstance(paged_kv_cache, (tuple, list)):
        if len(paged_kv_cache) != 2:
            raise ValueError(f"paged_kv_cache has {len(paged_kv_cache)} parts, expected 2")
        keys, values = paged_kv_cache
        return _with_page_dimension(keys, kv_layout, 4), _with_page_dimension(values, kv_layout, 4)
    if not hasattr(paged_kv_cache, "shape"):
        raise KeyError(f"paged_kv_cache is a {type(paged_kv_cache).__name__}, "
                       "accepted: a tensor, a pair of tensors")
    cache = _with_page_dimension(paged_kv_cache, kv_layout, 5)
    if cache.shape[1] != 2:
        raise ValueError(f"paged_kv_cache: shape is {list(cache.shape)}, expected 2 in the second "
                         "dimension: keys and values")
    return cache[:, 0], cache[:, 1]


_cache_buf = {}


def _get_cache_buf(name, bytes, device, zero_init=False):
    """A uint8 buffer kept for `name` on `device`, of at least `bytes` bytes."""
    import torch

    buffer = _cache_buf.get((name, device))
    if buffer is None or buffer.numel() < bytes:
        make = torch.zeros if zero_init else torch.empty
        buffer = _cache_buf[(name, device)] = make(bytes, dtype=torch.uint8, device=device)
    return buffer


class FP4Tensor:
    """Two e2m1 values a byte with their block scales.

    Attributes:
        data: uint8, ``[…, hidden_size / 2]``.
        scale: float8_e4m3fn, in tiles of 128 rows and 4 blocks of 16 elements.
        scale_start_index: the row of `scale` where `data` begins.
        original_shape: the shape in elements, or None.
    """

    def __init__(self, data: Any, scale: float | Tensor, scale_start_index: int = 0,
                 original_shape: Any = None) -> None:
        if dtype_name(data.dtype) != "uint8":
            raise ValueError(f"data: dtype is {data.dtype}, expected uint8")
        if dtype_name(scale.dtype) != "float8_e4m3fn":
            raise ValueError(f"scale: dtype is {scale.dtype}, expected float8_e4m3fn")
        if scale.shape[0] % 128 != 0:
            raise ValueError(f"scale: {scale.shape[0]} rows, expected a multiple of 128")
        if original_shape is not None and tuple(data.shape[:-1]) != tuple(original_shape[:-1]):
            raise ValueError(f"data: shape is {tuple(data.shape)}, expected "
                             f"{tuple(original_shape)} in elements")
        self.data = data
        self.scale = scale
        self.scale_start_index = scale_start_index
        self.original_shape = original_shape
        self.dtype = "nvfp4"


# --- devices

def get_compute_capability(device: Any) -> tuple[int, int]:
    """(major, minor) of a CUDA device; ValueError for another."""
    import torch

    device = torch.device(device)
    if device.type != "cuda":
        raise ValueError("device must be a cuda device")
    return torch.cuda.get_device_capability(device.index)


@functools.lru_cache(maxsize=None)
def get_device_sm_count(device: Any) -> int:
    """Multiprocessors of a CUDA device."""
    import torch

    return torch.cuda.get_device_properties(device).multi_processor_count


def _has_capability(device, *majors, minor=None):
    major, found_minor = get_compute_capability(device)
    return major in majors and (minor is None or minor == found_minor)


def device_support_pdl(device: Any) -> bool:
    """Whether launches on `device` may overlap (programmatic dependent launch)."""
    import torch

    if torch.device(device).type != "cuda":
        return False
    return get_compute_capability(device)[0] >= 9


def is_sm90a_supported(device: Any) -> bool:
    """Whether the device is an SM90."""
    return _has_capability(device, 9)


def is_sm100a_supported(device: Any) -> bool:
    """Whether the device is of compute capability 10."""
    return _has_capability(device, 10)


def is_sm100f_supported(device: Any) -> bool:
    """Whether the device is of compute capability 10."""
    return _has_capability(device, 10)


def is_sm110a_supported(device: Any) -> bool:
    """Whether the device is of compute capability 11."""
    return _has_capability(device, 11)


def is_sm12x_supported(device: Any) -> bool:
    """Whether the device is of compute capability 12."""
    return _has_capability(device, 12)


def is_sm120a_supported(device: Any) -> bool:
    """Whether the device is an SM120."""
    return _has_capability(device, 12, minor=0)


def is_sm120f_supported(device: Any) -> bool:
    """Whether the device is of compute capability 12."""
    return _has_capability(device, 12)


def is_sm121a_supported(device: Any) -> bool:
    """Whether the device is an SM121."""
    return _has_capability(device, 12, minor=1)


def is_cvt_rs_supported(device: Any = None) -> bool:
    """Whether the device rounds stochastically when it converts: SM100 and SM103."""
    return device is not None and _has_capability(device, 10)


def determine_gemm_backend(device: Any) -> str:
    """"sm90" on an SM90, else "sm80"."""
    return "sm90" if _has_capability(device, 9) else "sm80"


def is_fa3_backend_supported(pos_encoding_mode: int, use_fp16_qk_reductions: bool,
                             use_custom_mask: bool, dtype_q: Any, dtype_kv: Any) -> Any:
    """Whether the kernels of SM90 take these options: no position encoding, mask or fp16 sums."""
    return (pos_encoding_mode == PosEncodingMode.NONE.value and not use_fp16_qk_reductions
            and not use_custom_mask)


def is_fa3_prefill_head_dim_supported(head_dim_qk: int, head_dim_vo: int) -> bool:
    """Whether the original's kernels of SM90 know these head sizes."""
    return (head_dim_qk, head_dim_vo) in ((64, 64), (128, 128), (192, 128), (256, 256))


def is_cutlass_backend_supported(pos_encoding_mode: int, use_fp16_qk_reductions: bool,
                                 use_custom_mask: bool, dtype_q: Any, dtype_kv: Any) -> Any:
    """As is_fa3_backend_supported(), for 16-bit dtypes alone."""
    is_16_bit = not any(dtype_name(t).startswith("float8") for t in (dtype_q, dtype_kv))
    return is_16_bit and is_fa3_backend_supported(
        pos_encoding_mode, use_fp16_qk_reductions, use_custom_mask, dtype_q, dtype_kv)


def determine_attention_backend(device: Any, pos_encoding_mode: int, use_fp16_qk_reductions: bool,
                                use_custom_mask: bool, dtype_q: Any, dtype_kv: Any, *,
                                head_dim_qk: int | None = None,
                                head_dim_vo: int | None = None) -> str:
    """"fa3" where the kernels of SM90 take the options, else "fa2"."""
    if not is_sm90a_supported(device):
        return "fa2"
    if head_dim_qk is not None and not is_fa3_prefill_head_dim_supported(
            head_dim_qk, head_dim_qk if head_dim_vo is None else head_dim_vo):
        return "fa2"
    takes = is_fa3_backend_supported(pos_encoding_mode, use_fp16_qk_reductions, use_custom_mask,
                                     dtype_q, dtype_kv)
    return "fa3" if takes else "fa2"


def determine_mla_backend(device: Any) -> str:
    """"fa3" on an SM90, else "fa2"."""
    return "fa3" if is_sm90a_supported(device) else "fa2"


def has_flashinfer_jit_cache() -> bool:
    """True: nothing has to be warmed up, since kernels take well under a second to compile."""
    return True


def has_flashinfer_cubin() -> bool:
    """True: no cubin has to be downloaded."""
    return True


def get_trtllm_gen_multi_ctas_kv_counter_bytes(
        batch_size: int, num_qo_heads: int, sm_count: int) -> int:
    """Bytes of zeros that a caller of the block-table functions may share among calls."""
    return 4 * max(batch_size * num_qo_heads, sm_count)


def set_log_level(lvl_str: str) -> None:
    """Accepted levels are those of LogLevel, in lower case."""
    if lvl_str.upper() not in LogLevel.__members__:
        names = ", ".join(name.lower() for name in LogLevel.__members__)
        raise KeyError(f"log level is {lvl_str!r}, accepted: {names}")
    not_yet("set_log_level",
            "cannot change the level of a running process: set FLASHINFER_LOGLEVEL")


# --- registration

def register_custom_op(name: str, fn: Any = None, /, *, mutates_args: Any, device_types: Any = None,
                       schema: Any = None) -> Any:
    """Returns functions as they are: operators of this package are registered already."""
    return lambda function: function


def register_fake_op(name: str, fn: Any = None) -> Any:
    """As register_custom_op()."""
    return lambda function: function


prepare_jit_additional_args = pending("prepare_jit_additional_args")
