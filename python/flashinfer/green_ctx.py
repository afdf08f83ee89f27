# SPDX-License-Identifier: Apache-2.0
"""Parts of a device: streams whose kernels run on some of its multiprocessors alone (green contexts
of CUDA 12.4)."""
from __future__ import annotations

import ctypes
import functools
from typing import Any

from ._errors import BackendSupportedError, DeviceError
from .utils import get_compute_capability, round_up

_TYPE_SM = 1
_DEFAULT_STREAM = 1
_NON_BLOCKING = 1


class CUdevSmResource(ctypes.Structure):
    """Multiprocessors of a part, as the driver has it."""

    _fields_ = [("smCount", ctypes.c_uint), ("minSmPartitionSize", ctypes.c_uint),
                ("smCoscheduledAlignment", ctypes.c_uint)]


class _Part(ctypes.Union):
    _fields_ = [("sm", CUdevSmResource), ("_oversize", ctypes.c_ubyte * 48)]


class CUdevResource(ctypes.Structure):
    """A part of a device, as the driver has it: ``resource.sm.smCount`` multiprocessors."""

    _anonymous_ = ("_part",)
    _fields_ = [("type", ctypes.c_int), ("_padding", ctypes.c_ubyte * 92), ("_part", _Part)]


@functools.cache
def _driver():
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise BackendSupportedError(f"green contexts need the CUDA driver: {error}") from None


def _call(name, *args):
    driver = _driver()
    try:
        function = getattr(driver, name)
    except AttributeError:
        raise BackendSupportedError(f"green contexts need a CUDA driver of 12.4 or newer: this one "
                                    f"has no {name}") from None
    status = function(*args)
    if status != 0:
        text = ctypes.c_char_p()
        driver.cuGetErrorName(status, ctypes.byref(text))
        raise DeviceError(f"{name}: CUDA error code={status}({(text.value or b'?').decode()})")


def _device(dev):
    """(the driver's device, its index), with a context."""
    try:
        import torch
    except ImportError:
        raise BackendSupportedError("green contexts need torch, whose streams they are") from None
    dev = torch.device(dev)
    if dev.type != "cuda":
        raise ValueError(f"dev: is {dev}, expected a CUDA device")
    index = torch.cuda.current_device() if dev.index is None else dev.index
    torch.zeros(1, device=f"cuda:{index}")  # makes the context of the device, when there is none
    device = ctypes.c_int()
    _call("cuDeviceGet", ctypes.byref(device), index)
    return device, index


def _all_of(device):
    resource = CUdevResource()
    _call("cuDeviceGetDevResource", device, ctypes.byref(resource), _TYPE_SM)
    return resource


def _split(resource, num_groups, min_count):
    """(parts, what remains)."""
    parts = (CUdevResource * num_groups)()
    remaining = CUdevResource()
    num_made = ctypes.c_uint(num_groups)
    _call("cuDevSmResourceSplitByCount", parts, ctypes.byref(num_made), ctypes.byref(resource),
          ctypes.byref(remaining), 0, min_count)
    # Parts that could not be made have no type, which the driver refuses for their contexts.
    return list(parts), remaining


def _context(device, resource):
    description = ctypes.c_void_p()
    _call("cuDevResourceGenerateDesc", ctypes.byref(description), ctypes.byref(resource), 1)
    context = ctypes.c_void_p()
    _call("cuGreenCtxCreate", ctypes.byref(context), description, device, _DEFAULT_STREAM)
    return context


def _streams(device, index, resources):
    import torch

    streams = []
    for resource in resources:
        stream = ctypes.c_void_p()
        _call("cuGreenCtxStreamCreate", ctypes.byref(stream), _context(device, resource),
              _NON_BLOCKING, 0)
        streams.append(torch.cuda.get_stream_from_external(stream.value, f"cuda:{index}"))
    return streams


def split_device_green_ctx(dev: Any, num_groups: int,
                           min_count: int) -> tuple[list[Any], list[CUdevResource]]:
    """Cuts a device into `num_groups` parts of the same size, and what remains.

    Streams and their contexts live as long as the process.

    Args:
        dev: a CUDA device.
        num_groups: parts.
        min_count: multiprocessors of each at least; the driver rounds up, to a multiple of 8 from
            SM90 on.

    Returns:
        (streams of torch, resources), num_groups + 1 each, the last being the rest;
        ``resource.sm.smCount`` is the number of multiprocessors.

    Raises:
        RuntimeError: the device has too few multiprocessors.
        NotImplementedError: there is no driver with green contexts, or no torch.
    """
    device, index = _device(dev)
    parts, remaining = _split(_all_of(device), num_groups, min_count)
    resources = [*parts, remaining]
    return _streams(device, index, resources), resources


def get_sm_count_constraint(major: int, minor: int) -> tuple[int, int]:
    """(fewest multiprocessors of a part, what their number is a multiple of) of an architecture."""
    if major >= 9:
        return 8, 8
    constraints = {6: (1, 1), 7: (2, 2), 8: (4, 2)}
    if major not in constraints:
        raise ValueError(f"major: is {major}, accepted: 6 and above")
    return constraints[major]


def split_device_green_ctx_by_sm_count(
        dev: Any, sm_counts: list[int]) -> tuple[list[Any], list[CUdevResource]]:
    """Cuts a device into parts of given sizes, and what remains.

    Args:
        dev: a CUDA device.
        sm_counts: multiprocessors of each part, rounded up as get_sm_count_constraint() says.

    Returns, raises:
        As split_device_green_ctx().
    """
    if any(count <= 0 for count in sm_counts):
        raise ValueError(f"sm_counts: is {list(sm_counts)}, expected numbers above 0")
    device, index = _device(dev)
    fewest, multiple = get_sm_count_constraint(*get_compute_capability(dev))
    resources, rest = [], _all_of(device)
    for count in sm_counts:
        parts, remaining = _split(rest, 1, round_up(max(count, fewest), multiple))
        resources += parts
        # What remains can be cut again once it is a context's.
        rest = CUdevResource()
        _call("cuGreenCtxGetDevResource", _context(device, remaining), ctypes.byref(rest),
              _TYPE_SM)
    resources.append(rest)
    return _streams(device, index, resources), resources
