# SPDX-License-Identifier: Apache-2.0
"""Orders of a weight's rows that some kernels of SM100 read, and of its block scales."""
from __future__ import annotations

from ._tensors import Tensor, dense, dtype_name


def _check_matrix(name, x, row_multiple, column_multiple=1):
    if len(x.shape) != 2 or x.shape[0] % row_multiple or x.shape[1] % column_multiple:
        raise ValueError(f"{name}: shape is {list(x.shape)}, expected two dimensions, multiples of "
                         f"{row_multiple} and {column_multiple}")


def _as_rows(numbers, like):
    """Integers as an int64 tensor in host memory, of the framework of `like`."""
    if type(like).__module__.partition(".")[0] != "torch":
        return numbers
    import torch

    return torch.from_numpy(numbers)


def get_shuffle_matrix_a_row_indices(input_tensor: Tensor, epilogue_tile_m: int) -> Tensor:
    """The row of `input_tensor` that each row of the shuffled matrix is.

    Rows are reordered in blocks of 32 where `epilogue_tile_m` is a multiple of 128, else of 16: row
    ``r`` of a block goes to ``r % 4 · 8 + r // 4``, or to ``r % 2 · 8 + r // 2``.

    Args:
        input_tensor: ``[num_rows, size]``, num_rows a multiple of the block.
        epilogue_tile_m: rows of a tile of the kernel.

    Returns:
        ``[num_rows]`` int64 in host memory.
    """
    import numpy

    block = 32 if epilogue_tile_m % 128 == 0 else 16
    _check_matrix("input_tensor", input_tensor, block)
    rows = numpy.arange(input_tensor.shape[0], dtype=numpy.int64)
    return _as_rows(rows.reshape(-1, 8, block // 8).swapaxes(1, 2).reshape(-1), input_tensor)


def get_shuffle_matrix_sf_a_row_indices(input_tensor: Tensor, epilogue_tile_m: int,
                                        num_elts_per_sf: int = 16) -> Tensor:
    """get_shuffle_matrix_a_row_indices() for block scales of the matrix.

    Args:
        input_tensor: ``[num_rows, num_blocks]`` uint8, multiples of 128 and 4.
        epilogue_tile_m: as there.
        num_elts_per_sf: elements of a block, 16 or 32.
    """
    if dtype_name(input_tensor.dtype) != "uint8":
        raise ValueError(f"input_tensor: is {dtype_name(input_tensor.dtype)}, expected uint8")
    if num_elts_per_sf not in (16, 32):
        raise ValueError(f"num_elts_per_sf: is {num_elts_per_sf}, accepted: 16, 32")
    _check_matrix("input_tensor", input_tensor, 128, 4)
    return get_shuffle_matrix_a_row_indices(input_tensor, epilogue_tile_m)


def _taken(x, rows):
    return dense(x[rows.to(x.device)] if hasattr(rows, "to") else x[rows])


def shuffle_matrix_a(input_tensor: Tensor, epilogue_tile_m: int) -> Tensor:
    """The rows of a matrix in the order of get_shuffle_matrix_a_row_indices()."""
    return _taken(input_tensor, get_shuffle_matrix_a_row_indices(input_tensor, epilogue_tile_m))


def shuffle_matrix_sf_a(input_tensor: Tensor, epilogue_tile_m: int,
                        num_elts_per_sf: int = 16) -> Tensor:
    """Row-major block scales in the order of shuffle_matrix_a(), in tiles of 128 rows and 4 blocks.

    Args:
        input_tensor: ``[num_rows, num_blocks]`` uint8, multiples of 128 and 4.

    Returns:
        All tiles in one dimension, uint8.
    """
    from .quantization.fp4_quantization import block_scale_interleave

    return block_scale_interleave(_taken(input_tensor, get_shuffle_matrix_sf_a_row_indices(
        input_tensor, epilogue_tile_m, num_elts_per_sf)))


def get_reorder_rows_for_gated_act_gemm_row_indices(x: Tensor) -> Tensor:
    """Rows of the first half and of the second in turn, ``[num_rows]`` int64 in host memory."""
    import numpy

    _check_matrix("x", x, 2)
    rows = numpy.arange(x.shape[0], dtype=numpy.int64)
    return _as_rows(rows.reshape(2, -1).T.reshape(-1), x)


def reorder_rows_for_gated_act_gemm(x: Tensor) -> Tensor:
    """The rows of the two halves of a gated layer's weight in turn: 0, n / 2, 1, n / 2 + 1, …

    Args:
        x: ``[num_rows, size]``, num_rows even.
    """
    return _taken(x, get_reorder_rows_for_gated_act_gemm_row_indices(x))
