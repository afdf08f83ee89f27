# SPDX-License-Identifier: Apache-2.0
"""CUDA tensors of torch: the device of outputs, the current stream, CUDA graphs, threads. Values of
all operators on CUDA tensors are checked by the tests that take the fixture `tensors`."""
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: tools/setup --dev installs it")
if not torch.cuda.is_available():
    pytest.skip("torch sees no CUDA device", allow_module_level=True)

from attention_oracle import PagedBatch, attention, check_attention  # noqa: E402
from conftest import CudaTensors  # noqa: E402

import flashinfer  # noqa: E402

HEADS, KV_HEADS, DIM, PAGE = 8, 2, 128, 16
LONG = 100_000_000  # cycles: longer than the host takes for any call here
cuda = CudaTensors()


def values(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, dtype=dtype, device="cuda")


def workspace(num_bytes=32 << 20):
    return torch.empty(num_bytes, dtype=torch.uint8, device="cuda")


def table(*numbers):
    return torch.tensor(numbers, dtype=torch.int32, device="cuda")


def calls():
    """Functions of new tensors, by name: what they return is made by the package."""
    k, v = values(40, KV_HEADS, DIM), values(40, KV_HEADS, DIM)
    probs = torch.softmax(values(3, 1000, dtype=torch.float32), -1)
    return {
        "rmsnorm": lambda: flashinfer.rmsnorm(values(5, 256), values(256)),
        "silu_and_mul": lambda: flashinfer.silu_and_mul(values(5, 256)),
        "apply_rope_pos_ids": lambda: flashinfer.apply_rope_pos_ids(
            values(5, HEADS, DIM), values(5, KV_HEADS, DIM), table(0, 1, 2, 3, 4)),
        "single_decode": lambda: flashinfer.single_decode_with_kv_cache(
            values(HEADS, DIM), k, v, return_lse=True),
        "single_prefill": lambda: flashinfer.single_prefill_with_kv_cache(
            values(7, HEADS, DIM), k, v, causal=True, return_lse=True),
        "merge_state": lambda: flashinfer.merge_state(
            values(5, HEADS, DIM), values(5, HEADS, dtype=torch.float32), values(5, HEADS, DIM),
            values(5, HEADS, dtype=torch.float32)),
        "softmax": lambda: flashinfer.sampling.softmax(values(3, 1000, dtype=torch.float32)),
        "sampling_from_probs": lambda: flashinfer.sampling.sampling_from_probs(probs),
        "top_k_top_p": lambda: flashinfer.sampling.top_k_top_p_sampling_from_probs(
            probs, top_k=torch.full((3,), 20, dtype=torch.int32, device="cuda"), top_p=0.9),
        "top_k": lambda: flashinfer.topk.top_k(probs, 7),
        "packbits": lambda: flashinfer.packbits(values(99) > 0),
    }


@pytest.mark.parametrize("name", calls())
def test_outputs_are_on_the_device(name):
    made = calls()[name]()
    for out in made if isinstance(made, tuple) else (made,):
        assert out.device == torch.device("cuda", torch.cuda.current_device())


def test_dense_products_are_still_to_come():
    x = torch.ones(2, 16, 16, device="cuda").to(torch.float8_e4m3fn)
    scale = torch.ones(1, device="cuda")
    with pytest.raises(NotImplementedError, match="runs on the CPU alone"):
        flashinfer.bmm_fp8(x, x.transpose(1, 2), scale, scale, torch.bfloat16)


def batch_of(rng, kv_lens):
    return PagedBatch(rng, kv_lens, page_size=PAGE, heads=KV_HEADS, dim=DIM, dtype="float16",
                      tensors=cuda)


def expected(batch, q, q_lens=None):
    q_lens = [1] * len(batch.kv_lens) if q_lens is None else q_lens
    begins = np.concatenate([[0], np.cumsum(q_lens)])
    parts = [attention(cuda.read(q)[begins[b]:begins[b + 1]], batch.keys(b), batch.values(b),
                       causal=True) for b in range(len(q_lens))]
    return tuple(np.concatenate(part) for part in zip(*parts))


def on_a_slow_stream(fill, call):
    """call() behind fill() on a stream of its own that has something long to do first."""
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(LONG)
        fill()
        out = call()
        assert not stream.query(), "the stream was waited for"
    stream.synchronize()
    return out


def test_calls_are_on_the_current_stream(rng):
    want, x, weight = values(64, 256), torch.zeros(64, 256, device="cuda").bfloat16(), values(256)
    flashinfer.rmsnorm(x, weight)  # compiled
    out = on_a_slow_stream(lambda: x.copy_(want), lambda: flashinfer.rmsnorm(x, weight))
    assert (out == flashinfer.rmsnorm(want, weight)).all() and out.isfinite().all()

    batch, want = batch_of(rng, [300, 17, 5000]), values(3, HEADS, DIM, dtype=torch.float16)
    q = torch.zeros_like(want)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace())
    wrapper.plan(*batch.tables(cuda), HEADS, KV_HEADS, DIM, PAGE, q_data_type=torch.float16)
    wrapper.run(q, batch.cache)
    out, lse = on_a_slow_stream(lambda: q.copy_(want),
                                lambda: wrapper.run(q, batch.cache, return_lse=True))
    check_attention(cuda, out, lse, expected(batch, want), "float16")


def captured(call):
    """A graph of call(), which has run before, and what it returned while it was captured."""
    for _ in range(2):
        call()
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        made = call()
    return graph, made


def test_graph_of_a_row_operator():
    x, weight = values(64, 256), values(256)
    graph, out = captured(lambda: flashinfer.rmsnorm(x, weight))
    for _ in range(3):
        x.normal_()
        out.fill_(float("nan"))
        graph.replay()
        assert (out == flashinfer.rmsnorm(x, weight)).all()


def test_graph_of_a_sampler_draws_anew():
    probs = torch.full((64, 1000), 1e-3, device="cuda")
    graph, out = captured(lambda: flashinfer.sampling.sampling_from_probs(probs))
    drawn = []
    for _ in range(3):
        graph.replay()
        drawn.append(out.cpu())
        assert ((drawn[-1] >= 0) & (drawn[-1] < 1000)).all()
    assert not (drawn[0] == drawn[1]).all() and not (drawn[1] == drawn[2]).all()


@pytest.mark.parametrize("use_tensor_cores", [False, True])
def test_graph_of_decode(rng, use_tensor_cores):
    """Captured once; plan() for other lengths, then replayed."""
    count, most = 5, 600
    indices = torch.zeros(count * -(-most // PAGE), dtype=torch.int32, device="cuda")
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
        workspace(), use_cuda_graph=True, use_tensor_cores=use_tensor_cores,
        paged_kv_indptr_buffer=table(*range(count + 1)), paged_kv_indices_buffer=indices,
        paged_kv_last_page_len_buffer=table(*[1] * count))
    batches = [batch_of(rng, [most] * count)]
    batches += [batch_of(rng, rng.integers(1, most, count).tolist()) for _ in range(3)]
    pool = max(batch.cache.shape[0] for batch in batches)
    cache = torch.zeros(pool, *batches[0].cache.shape[1:], dtype=torch.float16, device="cuda")
    q = values(count, HEADS, DIM, dtype=torch.float16)

    def take(batch):
        wrapper.plan(*batch.tables(cuda), HEADS, KV_HEADS, DIM, PAGE, q_data_type=torch.float16)
        cache[:batch.cache.shape[0]] = batch.cache
        q.normal_()

    take(batches[0])
    graph, (out, lse) = captured(lambda: wrapper.run(q, cache, return_lse=True))
    for batch in batches:
        take(batch)
        out.fill_(float("nan"))
        graph.replay()
        check_attention(cuda, out, lse, expected(batch, q), "float16")


def test_graph_of_prefill(rng):
    q_lens, most = [33, 7, 60], 300
    indices = torch.zeros(3 * -(-most // PAGE), dtype=torch.int32, device="cuda")
    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(
        workspace(), use_cuda_graph=True, qo_indptr_buf=table(0, 1, 2, 3),
        paged_kv_indptr_buf=table(0, 1, 2, 3), paged_kv_indices_buf=indices,
        paged_kv_last_page_len_buf=table(1, 1, 1))
    q = values(100, HEADS, DIM, dtype=torch.float16)
    batches = [(q_lens, batch_of(rng, [most] * 3)), (q_lens[::-1], batch_of(rng, [61, 250, 40])),
               ([1, 1, 98], batch_of(rng, [200, 1, 98]))]
    pool = max(batch.cache.shape[0] for _, batch in batches)
    cache = torch.zeros(pool, *batches[0][1].cache.shape[1:], dtype=torch.float16, device="cuda")

    def take(lens, batch):
        wrapper.plan(table(0, *np.cumsum(lens).tolist()), *batch.tables(cuda), HEADS, KV_HEADS, DIM,
                     PAGE, causal=True, q_data_type=torch.float16)
        cache[:batch.cache.shape[0]] = batch.cache
        q.normal_()

    take(*batches[0])
    graph, (out, lse) = captured(lambda: wrapper.run(q, cache, return_lse=True))
    for lens, batch in batches:
        take(lens, batch)
        out.fill_(float("nan"))
        graph.replay()
        check_attention(cuda, out, lse, expected(batch, q, lens), "float16")


def test_graph_of_prefill_without_pages(rng):
    q, k, v = (values(n, h, DIM, dtype=torch.float16) for n, h in (
        (100, HEADS), (900, KV_HEADS), (900, KV_HEADS)))
    wrapper = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(
        workspace(), use_cuda_graph=True, qo_indptr_buf=table(0, 0, 0, 0),
        kv_indptr_buf=table(0, 0, 0, 0))
    graph = None
    for q_lens, kv_lens in (([33, 7, 60], [40, 30, 100]), ([60, 7, 33], [300, 500, 100]),
                            ([1, 0, 99], [0, 50, 99])):
        starts = [[0, *np.cumsum(n).tolist()] for n in (q_lens, kv_lens)]
        wrapper.plan(*[table(*s) for s in starts], HEADS, KV_HEADS, DIM, causal=True,
                     q_data_type=torch.float16)
        if graph is None:
            graph, (out, lse) = captured(lambda: wrapper.run(q, k, v, return_lse=True))
        q.normal_()
        out.fill_(float("nan"))
        graph.replay()
        parts = [attention(*[cuda.read(x)[s[b]:s[b + 1]] for x, s in
                             ((q, starts[0]), (k, starts[1]), (v, starts[1]))], causal=True)
                 for b in range(3)]
        check_attention(cuda, out, lse, tuple(np.concatenate(part) for part in zip(*parts)),
                        "float16")


def test_graph_of_decode_that_rotates(rng):
    """By the kernels of prefill."""
    count, most = 3, 400
    wrapper = flashinfer.CUDAGraphBatchDecodeWithPagedKVCacheWrapper(
        workspace(), table(*range(count + 1)),
        torch.zeros(count * 25, dtype=torch.int32, device="cuda"), table(*[1] * count))
    batches = [batch_of(rng, lens) for lens in ([17, 1, 40], [most] * 3, [399, 16, 250])]
    pool = max(batch.cache.shape[0] for batch in batches)
    cache = torch.zeros(pool, *batches[0].cache.shape[1:], dtype=torch.float16, device="cuda")
    q = values(count, HEADS, DIM, dtype=torch.float16)

    def take(batch):
        wrapper.plan(*batch.tables(cuda), HEADS, KV_HEADS, DIM, PAGE, q_data_type=torch.float16,
                     pos_encoding_mode="ROPE_LLAMA")
        cache[:batch.cache.shape[0]] = batch.cache

    take(batches[0])
    graph, (out, lse) = captured(lambda: wrapper.run(q, cache, return_lse=True))
    for batch in batches:
        take(batch)
        out.fill_(float("nan"))
        graph.replay()
        parts = [attention(cuda.read(q)[b:b + 1], batch.keys(b), batch.values(b),
                           encoding="ROPE_LLAMA") for b in range(count)]
        check_attention(cuda, out, lse, tuple(np.concatenate(part) for part in zip(*parts)),
                        "float16")


def test_prefill_of_fewer_rows_than_a_graph_has(rng):
    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(
        workspace(), use_cuda_graph=True, qo_indptr_buf=table(0, 0, 0),
        paged_kv_indptr_buf=table(0, 0, 0),
        paged_kv_indices_buf=torch.zeros(40, dtype=torch.int32, device="cuda"),
        paged_kv_last_page_len_buf=table(1, 1))
    for q_lens in ([30, 20], [3, 1], [50, 0], [1, 1]):
        batch, q = batch_of(rng, [60, 41]), values(sum(q_lens), HEADS, DIM, dtype=torch.float16)
        wrapper.plan(table(0, *np.cumsum(q_lens).tolist()), *batch.tables(cuda), HEADS, KV_HEADS,
                     DIM, PAGE, causal=True, q_data_type=torch.float16)
        check_attention(cuda, *wrapper.run(q, batch.cache, return_lse=True),
                        expected(batch, q, q_lens), "float16")


def test_graph_of_latent_attention():
    """Against the wrapper without a graph, which mla_test.py checks."""
    sizes = (16, 512, 64, 32, True, 0.1, torch.bfloat16, torch.bfloat16)
    ckv, kpe = values(60, 32, 512), values(60, 32, 64)
    q_nope, q_pe = values(9, 16, 512), values(9, 16, 64)
    buffers = [table(*[0] * n) for n in (4, 4, 60, 3)]
    wrapper = flashinfer.BatchMLAPagedAttentionWrapper(workspace(), True, *buffers)
    eager = flashinfer.BatchMLAPagedAttentionWrapper(workspace())
    graph = None
    for q_lens, kv_lens in (([3, 3, 3], [33, 500, 9]), ([1, 7, 1], [600, 64, 900]),
                            ([9, 0, 0], [10, 1, 1])):
        pages = [-(-n // 32) for n in kv_lens]
        indices = torch.randperm(60, device="cuda").int()[:sum(pages)]
        tables = [table(0, *np.cumsum(n).tolist()) for n in (q_lens, pages)]
        tables += [indices, table(*kv_lens)]
        wrapper.plan(*tables, *sizes)
        eager.plan(*tables, *sizes)
        if graph is None:
            graph, (out, lse) = captured(
                lambda: wrapper.run(q_nope, q_pe, ckv, kpe, return_lse=True))
        q_nope.normal_()
        out.fill_(float("nan"))
        graph.replay()
        want, want_lse = eager.run(q_nope, q_pe, ckv, kpe, return_lse=True)
        torch.testing.assert_close(out, want, rtol=2e-2, atol=2e-2)
        torch.testing.assert_close(lse, want_lse, rtol=1e-3, atol=1e-3)


def test_threads_have_streams_of_their_own():
    weight, wrong = values(256), []

    def work():
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(20):
                x = values(64, 256)
                out = flashinfer.rmsnorm(x, weight).float()
                want = torch.nn.functional.rms_norm(x.float(), (256,), weight.float(), 1e-6)
                if not torch.allclose(out, want, rtol=2e-2, atol=2e-2):
                    wrong.append(out)

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_errors_name_the_device():
    with pytest.raises(ValueError, match="weight"):
        flashinfer.rmsnorm(values(5, 256), values(256).cpu())


@pytest.mark.parametrize("num_requests", [1, 256, 4097])
def test_plans_of_tables_on_the_device(num_requests):
    kv_len, q = 40, values(num_requests, HEADS, DIM)
    counts = torch.full((num_requests,), -(-kv_len // PAGE), dtype=torch.int32)
    indptr = torch.cat([torch.zeros(1), counts.cumsum(0)]).to(torch.int32)
    indices = torch.arange(int(indptr[-1]), dtype=torch.int32, device="cuda") % 64
    last = torch.full((num_requests,), (kv_len - 1) % PAGE + 1, dtype=torch.int32)
    cache = values(64, 2, PAGE, KV_HEADS, DIM)
    results = []
    for device in ("cpu", "cuda"):
        wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace())
        wrapper.plan(indptr.to(device), indices, last.to(device), HEADS, KV_HEADS, DIM, PAGE,
                     q_data_type=torch.bfloat16)
        results.append(wrapper.run(q, cache))
    assert torch.equal(*results)


def test_tables_are_read_behind_the_work_ahead():
    """What fills a table on the current stream comes before the plan reads it."""
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace())
    cache, q = values(8, 2, PAGE, KV_HEADS, DIM), values(2, HEADS, DIM)
    right, last = table(0, 2, 4), table(PAGE, 3)
    wrapper.plan(right.cpu(), table(0, 1, 2, 3), last.cpu(), HEADS, KV_HEADS, DIM, PAGE,
                 q_data_type=torch.bfloat16)
    expected = wrapper.run(q, cache)
    indptr = table(0, 9, 1)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(LONG)
        indptr.copy_(right)
        wrapper.plan(indptr, table(0, 1, 2, 3), last, HEADS, KV_HEADS, DIM, PAGE,
                     q_data_type=torch.bfloat16)
        found = wrapper.run(q, cache)
    torch.cuda.synchronize()
    assert torch.equal(found, expected)


def test_green_contexts():
    from flashinfer import green_ctx

    num_sms = torch.cuda.get_device_properties(0).multi_processor_count
    x, weight = values(64, 4096), values(4096)
    expected = flashinfer.rmsnorm(x, weight)
    torch.cuda.synchronize()
    for streams, resources in (green_ctx.split_device_green_ctx("cuda", 2, 16),
                               green_ctx.split_device_green_ctx_by_sm_count("cuda", [8, 30])):
        assert len(streams) == len(resources) == 3
        assert sum(r.sm.smCount for r in resources) <= num_sms
        assert all(r.sm.smCount >= 8 for r in resources)
        for stream in streams:
            with torch.cuda.stream(stream):
                found = flashinfer.rmsnorm(x, weight)
            stream.synchronize()
            assert torch.equal(found, expected)
    with pytest.raises(RuntimeError, match="CUDA error code=91"):
        green_ctx.split_device_green_ctx("cuda", 1, num_sms + 8)
