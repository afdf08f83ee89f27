# SPDX-License-Identifier: Apache-2.0
"""Attention problems as the binding takes them: one packed record, the backend's name behind it."""
import math
import struct

from .. import _compiling
from .._binding import lib
from .._errors import BackendSupportedError
from .._tensors import dtype_name

# As AttentionRecord and MlaRecord in bindings/tvm_ffi/attention_record.h.
PROBLEM = struct.Struct("=13i4f")
MLA_PROBLEM = struct.Struct("=11i2f")

MASK_NONE, MASK_CAUSAL, MASK_CUSTOM, MASK_MULTI_ITEM = range(4)
POS_ENCODINGS = {"NONE": 0, "ROPE_LLAMA": 1, "ALIBI": 2}
LAYOUTS = {"NHD": 0, "HND": 1}
DEFAULT = math.nan  # of sm_scale: 1 / sqrt(head_dim_qk)

_DTYPES = {"float32": 0, "float16": 1, "bfloat16": 2, "float8_e4m3fn": 3, "float8_e5m2": 4,
           "int8": 7}
DTYPE_NAMES = {code: name for name, code in _DTYPES.items()}
_codes = {}  # a framework's dtype, or a name -> its code

# Names of the original for its own sets of kernels: what is fastest here takes their place.
_AUTO_BACKENDS = {"auto": "", "fa2": "", "fa3": ""}
_OTHER_BACKENDS = ("cudnn", "cutlass", "cute-dsl", "cutile", "trtllm-gen", "xqa",
                   "vsa_blackwell", "vsa_sm100_blk128", "vsa_sm100_blk64", "vsa_sm120_blk64")


def dtype_code(argument, dtype):
    """The code of a framework's dtype or of its name, "float16"."""
    code = _codes.get(dtype)
    if code is None:
        name = dtype_name(dtype)
        if name == "uint8":
            raise BackendSupportedError(f"{argument}: is uint8, an NVFP4 cache, which attention "
                                        "does not read yet")
        if name not in _DTYPES:
            raise ValueError(f"{argument}: is {name}, accepted: {', '.join(_DTYPES)}")
        code = _codes[dtype] = _DTYPES[name]
    return code


def layout_code(kv_layout):
    if kv_layout not in LAYOUTS:
        raise KeyError(f"kv_layout: is {kv_layout!r}, accepted: NHD, HND")
    return LAYOUTS[kv_layout]


def pos_encoding_code(pos_encoding_mode):
    if pos_encoding_mode not in POS_ENCODINGS:
        raise KeyError(f"pos_encoding_mode: is {pos_encoding_mode!r}, accepted: "
                       + ", ".join(POS_ENCODINGS))
    return POS_ENCODINGS[pos_encoding_mode]


def backend_name(backend):
    """What the library calls a backend: "" for its own choice."""
    name = _AUTO_BACKENDS.get(backend)
    if name is not None:
        return name
    if backend in _OTHER_BACKENDS:
        raise BackendSupportedError(
            f"backend: {backend!r} is a set of kernels that is not here; accepted: auto, fa2 and "
            "fa3 (all mean the fastest one here), cpu, cuda, and candidates such as cuda.simt")
    if backend.partition(".")[0] not in ("cpu", "cuda"):
        raise ValueError(f"backend: is {backend!r}, accepted: auto, fa2, fa3, cpu, cuda, and "
                         "candidates such as cuda.simt")
    return backend


_archs = {}  # index of a CUDA device -> its arch


def device_of(tensor):
    """(DLPack's device type, index) of a tensor: (1, 0) in host memory, (2, i) on a CUDA device."""
    is_cuda = getattr(tensor, "is_cuda", None)  # of torch, where it is the fastest to ask
    if is_cuda is None and hasattr(tensor, "__dlpack_device__"):
        kind, index = tensor.__dlpack_device__()
        return (2, int(index)) if int(kind) in (2, 13) else (1, 0)  # 13: managed memory
    return (2, tensor.get_device()) if is_cuda else (1, 0)


def arch_of(device):
    """The library's `arch` of a device as device_of() gives it."""
    kind, index = device
    if kind != 2:
        return 0
    arch = _archs.get(index)
    if arch is None:
        arch = _archs[index] = lib.load("arch_of").eager(index)
    return arch


def split_tokens(fixed_split_size, disable_split_kv, page_size):
    """`fixed_split_size` of a problem from the original's pages: keys are split every so many
    tokens, a multiple of 64; without splits, at more than any request has."""
    if disable_split_kv:
        return 2**30
    if fixed_split_size is None or fixed_split_size < 0:
        return 0
    if fixed_split_size == 0:
        raise ValueError("fixed_split_size: is 0, expected None or 1 or more")
    return (fixed_split_size * page_size + 63) // 64 * 64


def pack(layout, values, backend=""):
    """The record; a value that does not fit is the caller's."""
    try:
        if _compiling.ask():
            from .. import torch_ops

            return torch_ops.pack(layout, tuple(values), backend)
        return layout.pack(*values) + backend.encode()
    except (struct.error, TypeError, OverflowError) as error:
        raise ValueError(f"sizes of the problem, {values}: {error}") from None
