# SPDX-License-Identifier: Apache-2.0
"""Parts of a device, on a driver in Python that cuts 132 multiprocessors as a GPU of SM90 does."""
import ctypes

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: tools/setup --dev installs it")

from flashinfer import green_ctx  # noqa: E402

NOTHING, WRONG_TYPE = 0, 914


def multiple_of_8(count):
    return -(-max(count, 1) // 8) * 8


class Driver:
    """The driver's functions, each called as the library's would be."""

    def __init__(self, num_sms=132):
        self.num_sms, self.contexts, self.streams = num_sms, {}, {}

    def cuDeviceGet(self, device, index):
        device._obj.value = index
        return NOTHING

    def cuDeviceGetDevResource(self, device, resource, kind):
        assert kind == 1
        resource._obj.type, resource._obj.sm.smCount = 1, self.num_sms
        return NOTHING

    def cuDevSmResourceSplitByCount(self, parts, num_groups, resource, remaining, flags, count):
        assert flags == 0
        left = resource._obj.sm.smCount
        made = 0
        for i in range(num_groups._obj.value):
            if left < multiple_of_8(count):
                break
            parts[i].type, parts[i].sm.smCount = 1, multiple_of_8(count)
            left -= multiple_of_8(count)
            made += 1
        num_groups._obj.value = made
        if left > 0:
            remaining._obj.type, remaining._obj.sm.smCount = 1, left
        return NOTHING

    def cuDevResourceGenerateDesc(self, description, resource, count):
        assert count == 1
        if resource._obj.type != 1:
            return WRONG_TYPE
        description._obj.value = 1000 + resource._obj.sm.smCount
        return NOTHING

    def cuGreenCtxCreate(self, context, description, device, flags):
        assert flags == 1
        handle = 1 + len(self.contexts)
        self.contexts[handle] = description.value - 1000
        context._obj.value = handle
        return NOTHING

    def cuGreenCtxGetDevResource(self, context, resource, kind):
        resource._obj.type, resource._obj.sm.smCount = kind, self.contexts[context.value]
        return NOTHING

    def cuGreenCtxStreamCreate(self, stream, context, flags, priority):
        assert (flags, priority) == (1, 0)
        handle = 0x100 + len(self.streams)
        self.streams[handle] = self.contexts[context.value]
        stream._obj.value = handle
        return NOTHING

    def cuGetErrorName(self, status, text):
        text._obj.value = b"CUDA_ERROR_INVALID_RESOURCE_TYPE"
        return NOTHING


@pytest.fixture
def driver(monkeypatch):
    made = Driver()
    monkeypatch.setattr(green_ctx, "_driver", lambda: made)
    monkeypatch.setattr(torch, "zeros", lambda *args, **kwargs: None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_stream_from_external", lambda handle, device: handle)
    monkeypatch.setattr(green_ctx, "get_compute_capability", lambda device: (9, 0))
    return made


def test_layout_is_the_drivers():
    assert ctypes.sizeof(green_ctx.CUdevResource) == 144
    assert green_ctx.CUdevResource.sm.offset == 96


@pytest.mark.parametrize("num_groups, min_count, expected", [(2, 16, [16, 16, 100]),
                                                             (1, 3, [8, 124])])
def test_parts_of_one_size(driver, num_groups, min_count, expected):
    streams, resources = green_ctx.split_device_green_ctx(torch.device("cuda:0"), num_groups,
                                                          min_count)
    assert [r.sm.smCount for r in resources] == expected
    assert [driver.streams[s] for s in streams] == expected


def test_parts_of_given_sizes(driver):
    streams, resources = green_ctx.split_device_green_ctx_by_sm_count("cuda", [8, 30, 1])
    assert [r.sm.smCount for r in resources] == [8, 32, 8, 84]
    assert [driver.streams[s] for s in streams] == [8, 32, 8, 84]


def test_what_does_not_fit(driver):
    with pytest.raises(RuntimeError, match=r"CUDA error code=914\(CUDA_ERROR_INVALID_RESOURCE"):
        green_ctx.split_device_green_ctx("cuda:0", 9, 16)
    with pytest.raises(RuntimeError, match="CUDA error code=914"):
        green_ctx.split_device_green_ctx_by_sm_count("cuda:0", [64, 72])
    with pytest.raises(ValueError, match=r"sm_counts: is \[8, 0\]"):
        green_ctx.split_device_green_ctx_by_sm_count("cuda:0", [8, 0])
    with pytest.raises(ValueError, match="dev: is cpu, expected a CUDA device"):
        green_ctx.split_device_green_ctx("cpu", 1, 8)


def test_without_a_driver_that_can(monkeypatch, driver):
    class Old:
        def cuDeviceGet(self, device, index):
            return NOTHING

    monkeypatch.setattr(green_ctx, "_driver", Old)
    with pytest.raises(NotImplementedError, match="12.4 or newer: .* no cuDeviceGetDevResource"):
        green_ctx.split_device_green_ctx("cuda:0", 1, 8)


def test_without_a_driver(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: (_ for _ in ()).throw(OSError("no " + name)))
    green_ctx._driver.cache_clear()
    with pytest.raises(NotImplementedError, match="need the CUDA driver: no libcuda.so.1"):
        green_ctx._call("cuDeviceGet", None, 0)
    green_ctx._driver.cache_clear()


@pytest.mark.parametrize("arch, expected", [((7, 5), (2, 2)), ((8, 9), (4, 2)), ((12, 0), (8, 8))])
def test_sizes_of_parts(arch, expected):
    assert green_ctx.get_sm_count_constraint(*arch) == expected
