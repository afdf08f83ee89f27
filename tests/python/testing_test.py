# SPDX-License-Identifier: Apache-2.0
"""flashinfer.testing and autotuner."""
import time

import numpy as np
import pytest

from flashinfer import autotune, testing
from flashinfer.autotuner import (
    AutoTuner,
    DynamicTensorSpec,
    TunableRunner,
    TuningConfig,
    make_bucket_mapper,
    round_to_nearest_bucket,
)

torch = pytest.importorskip("torch", reason="torch is not installed")
no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")


def seen_pairs(q_len, kv_len, causal):
    return sum(1 for i in range(q_len) for j in range(kv_len)
               if not causal or j + q_len <= kv_len + i)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_work(causal):
    heads, dims, lengths = 3, (64, 32), [(5, 9), (7, 7), (1, 12)]
    expected = sum(2 * seen_pairs(*pair, causal) for pair in lengths) * heads * sum(dims)
    found = testing.attention_flops_with_actual_seq_lens(
        torch.tensor([q for q, _ in lengths]), torch.tensor([kv for _, kv in lengths]), *dims,
        heads, causal)
    # Half of each query's own pair is left out: the usual count of causal attention.
    assert found == expected - (sum(q for q, _ in lengths) * heads * sum(dims) if causal else 0)
    one = testing.attention_flops(4, 5, 9, *dims, heads, causal)
    assert one == 4 * testing.attention_flops_with_actual_seq_lens([5], [9], *dims, heads, causal)
    assert testing.attention_tflops_per_sec(4, 5, 9, *dims, heads, causal, 2.0) == one / 2e9
    assert testing.attention_tflops_per_sec(4, 5, 9, *dims, heads, causal, float("inf")) == 0


def test_attention_bytes():
    num_bytes = 2 * (3 * 4 * (64 + 32)) * 2 + 2 * (9 * 2 * (64 + 32)) * 1
    found = testing.attention_tb_per_sec(2, 3, 9, 64, 32, 4, 2, 0.5, torch.float16,
                                         torch.float8_e4m3fn, torch.float16)
    assert found == pytest.approx(num_bytes / 0.5 / 1e9)


def test_count_bytes():
    x = torch.zeros(3, 5, dtype=torch.float16)
    assert testing.count_bytes(x, None, (x, [x])) == 90


@pytest.mark.parametrize("mode", ["K", "MN"])
@pytest.mark.parametrize("batch", [None, 3])
def test_fp8_matrices(mode, batch):
    lead = () if batch is None else (batch,)
    x = torch.randn(*lead, 256, 384)
    shape = lead + ((2, 3) if mode == "K" else (3, 2))
    q, scales = testing.quantize_fp8(x, shape, (1,) * len(lead) + (128, 128), mode)
    assert q.dtype == torch.float8_e4m3fn and tuple(scales.shape) == shape
    assert (torch.log2(scales) % 1 == 0).all()
    back = testing.dequantize_fp8(q, scales, mode)
    assert ((back - x).abs() <= x.abs() * 2.0**-4 + scales.max() * 2.0**-10).all()


def test_casts_to_fp8():
    x = torch.randn(70, 256)
    q, scales = testing.per_token_cast_to_fp8(x)
    assert tuple(scales.shape) == (70, 2)
    error = (q.float() * scales.repeat_interleave(128, dim=1) - x).abs()
    assert (error <= x.abs() * 2.0**-4 + 2.0**-8).all()
    q, scales = testing.per_block_cast_to_fp8(x)
    assert q.shape == x.shape and tuple(scales.shape) == (1, 2)
    error = (q.float() * scales.repeat_interleave(128, dim=1) - x).abs()
    assert (error <= x.abs() * 2.0**-4 + 2.0**-8).all()


@no_gpu
def test_times_of_the_host():
    calls = []

    def sleep(milliseconds, extra=0):
        calls.append(extra)
        time.sleep(milliseconds / 1e3)

    times = testing.bench_gpu_time(sleep, 1, 3, input_args=(3,), input_kwargs={"extra": 7})
    assert len(times) == 3 and all(t >= 3 for t in times) and set(calls) == {7}
    with pytest.warns(UserWarning, match="CUPTI is not used"):
        assert len(testing.bench_gpu_time(sleep, 1, 2, enable_cupti=True, input_args=(1,))) == 2
    with pytest.raises(RuntimeError, match="needs a CUDA device"):
        testing.bench_kineto(lambda: None, "kernel")


def test_seed():
    testing.set_seed(5)
    first = torch.rand(2).tolist(), np.random.rand()
    testing.set_seed(5)
    assert (torch.rand(2).tolist(), np.random.rand()) == first


class Sleeper(TunableRunner):
    """Tactics are milliseconds; 7 fails."""

    def get_valid_tactics(self, inputs, profile):
        return [90, 7, 1]

    def forward(self, inputs, tactic=-1, do_preparation=False, **kwargs):
        if tactic == 7:
            raise RuntimeError("this tactic does not work")
        time.sleep(max(tactic, 0) / 1e3)
        return tactic


@no_gpu
def test_autotune(tmp_path):
    tuner = AutoTuner(warmup=0, repeat=3)
    AutoTuner._instance = tuner
    config = TuningConfig((DynamicTensorSpec((0,), (0,), (1, 8), make_bucket_mapper((1, 8))),))
    runners = [Sleeper()]

    def chosen(rows):
        return tuner.choose_one("op", runners, config, [torch.zeros(rows, 4)])[1]

    assert chosen(9) == -1
    with autotune(cache=tmp_path / "best.json"):
        assert chosen(9) == 1
    assert chosen(15) == 1, "the same bucket"
    assert chosen(2) == -1, "another bucket"
    tuner.clear_cache()
    with autotune(False, tmp_path / "best.json"):
        assert chosen(8) == 1, "as saved"
    assert tuner.rank_tactics("op", runners, config, [torch.zeros(1, 4)], k=2) == [
        (runners[0], 1), (runners[0], 90)]
    with pytest.raises(NotImplementedError, match="skip_ops"):
        with autotune(skip_ops={"op"}):
            pass
    AutoTuner._instance = None


def test_buckets():
    assert [round_to_nearest_bucket(x, (1, 8, 64)) for x in (0, 7, 8, 100)] == [1, 1, 8, 64]
    assert [round_to_nearest_bucket(x, (1, 8, 64), True) for x in (0, 7, 8, 100)] == [1, 8, 8, 64]
