# SPDX-License-Identifier: Apache-2.0
"""fp8 matrices with scales of blocks, in torch alone: inputs and references of tests."""

from __future__ import annotations

from typing import Any

from .._tensors import Tensor

_LARGEST = 448.0  # of float8_e4m3fn
_LEAST_AMAX = 1e-4


def _power_of_two_scales(amax):
    """amax / 448, rounded up to a power of two."""
    import torch

    return torch.exp2(torch.ceil(torch.log2(amax.float().clamp(min=_LEAST_AMAX) / _LARGEST)))


def _in_blocks(x, shape):
    """`x` cut into `shape` blocks: the block numbers and the places within alternate."""
    sizes = []
    for size, count in zip(x.shape, shape):
        if size % count != 0:
            raise ValueError(f"x: shape is {tuple(x.shape)}, expected multiples of {tuple(shape)}")
        sizes += [count, size // count]
    return x.reshape(sizes)


def _quantize(x, shape):
    """(fp8 of the shape of x, scales of `shape`)."""
    import torch

    blocks = _in_blocks(x.float(), shape)
    within = tuple(range(1, 2 * len(shape), 2))
    scales = _power_of_two_scales(blocks.abs().amax(dim=within, keepdim=True))
    quantised = (blocks / scales).to(torch.float8_e4m3fn).reshape(x.shape)
    return quantised, scales.reshape(tuple(shape))


def per_token_cast_to_fp8(x: Tensor) -> tuple[Tensor, Tensor]:
    """float8_e4m3fn and scales of 1 x 128 elements.

    Args:
        x: ``[m, n]``, n a multiple of 128.

    Returns:
        (``[m, n]`` float8_e4m3fn, ``[m, n / 128]`` float32: powers of two that multiply)
    """
    return _quantize(x, (x.shape[0], x.shape[1] // 128))


def per_block_cast_to_fp8(x: Tensor) -> tuple[Tensor, Tensor]:
    """float8_e4m3fn and scales of 128 x 128 elements, fewer at the edges.

    Args:
        x: ``[m, n]``.

    Returns:
        (``[m, n]`` float8_e4m3fn, ``[ceil(m / 128), ceil(n / 128)]`` float32)
    """
    m, n = x.shape
    shape = -(-m // 128), -(-n // 128)
    padded = x.new_zeros(shape[0] * 128, shape[1] * 128)
    padded[:m, :n] = x
    quantised, scales = _quantize(padded, shape)
    return quantised[:m, :n].contiguous(), scales


def quantize_fp8(x: Tensor, scale_shape: Any, tile_shape: Any,
                 scale_major_mode: str) -> tuple[Tensor, Tensor]:
    """float8_e4m3fn and scales of blocks of `tile_shape`.

    Args:
        x: two dimensions, or three of which the first is a batch.
        scale_shape: blocks of each dimension; in the mode "MN" the last two change places.
        tile_shape: elements of a block; ``scale_shape`` times it must be the shape of `x`.
        scale_major_mode: "K", or "MN".

    Returns:
        (as `x` float8_e4m3fn, float32 of `scale_shape`)
    """
    shape = list(scale_shape)
    if scale_major_mode != "K":
        shape[-1], shape[-2] = shape[-2], shape[-1]
    if [blocks * tile for blocks, tile in zip(shape, tile_shape)] != list(x.shape):
        raise ValueError(f"x: shape is {tuple(x.shape)}, expected {tuple(shape)} blocks of "
                         f"{tuple(tile_shape)}")
    quantised, scales = _quantize(x, shape)
    if scale_major_mode != "K":
        scales = scales.transpose(-1, -2).contiguous()
    return quantised, scales


def dequantize_fp8(x: Tensor, x_scale: float | Tensor, scale_major_mode: str) -> Tensor:
    """The reverse of quantize_fp8(): float32."""
    scales = x_scale if scale_major_mode == "K" else x_scale.transpose(-1, -2)
    blocks = _in_blocks(x.float(), scales.shape)
    for axis in range(1, 2 * scales.ndim, 2):
        scales = scales.unsqueeze(axis)
    return (blocks * scales).reshape(x.shape)
