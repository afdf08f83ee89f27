# SPDX-License-Identifier: Apache-2.0
"""flashinfer.sampling against float64 NumPy."""
import numpy as np
import pytest
import sampling_oracle as oracle
from conftest import check_close

import flashinfer
from flashinfer import sampling
from flashinfer._sampling_arguments import drawn_seed

VOCAB = 131
LOW_DTYPES = ["float32", "float16", "bfloat16"]


def random_logits(tensors, rng, rows=5, vocab=VOCAB, dtype="float32"):
    return tensors.make(rng.standard_normal((rows, vocab)) * 2, dtype)


def random_probs(tensors, rng, rows=5, vocab=VOCAB, dtype="float32"):
    return tensors.make(oracle.softmax(rng.standard_normal((rows, vocab)) * 2), dtype)


def as_rows(tensors, values, dtype):
    return tensors.make(np.array(values), dtype) if dtype == "float32" else tensors.make(
        np.array(values, np.dtype(dtype)))


# --- probabilities -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", LOW_DTYPES)
@pytest.mark.parametrize("temperature", [None, 0.5, [0.1, 0.5, 1, 2, 30]])
def test_softmax(tensors, rng, dtype, temperature):
    logits = random_logits(tensors, rng, dtype=dtype)
    column = np.array(1.0 if temperature is None else temperature).reshape(-1, 1)
    if isinstance(temperature, list):
        temperature = as_rows(tensors, temperature, "float32")
    probs = sampling.softmax(logits, temperature)
    assert probs.dtype == tensors.dtype("float32")
    check_close(tensors.read(probs), oracle.softmax(tensors.read(logits), column), "float32", 8.0)


def test_softmax_of_temperature_zero_is_uniform(tensors):
    logits = tensors.make(np.array([[1, 5, -np.inf, 2], [1, 5, 3, 2]]), "float32")
    probs = tensors.read(sampling.softmax(logits, as_rows(tensors, [0, 1], "float32")))
    np.testing.assert_allclose(probs[0], [1 / 3, 1 / 3, 0, 1 / 3], rtol=1e-6)
    np.testing.assert_allclose(probs[1], oracle.softmax(np.array([1.0, 5, 3, 2])), rtol=1e-6)


@pytest.mark.parametrize("dtype", LOW_DTYPES)
@pytest.mark.parametrize("k", [0, 1, 7, VOCAB, 2**40, [1, 2, 0, 130, 500]])
def test_top_k_renorm_probs(tensors, rng, dtype, k):
    probs = random_probs(tensors, rng, dtype=dtype)
    rows = k if isinstance(k, list) else [k] * 5
    result = sampling.top_k_renorm_probs(
        probs, as_rows(tensors, k, "int64") if isinstance(k, list) else k)
    assert result.dtype == probs.dtype
    expected = np.stack([oracle.top_k(row, n) for row, n in zip(tensors.read(probs), rows)])
    assert ((tensors.read(result) > 0) == (expected > 0)).all()
    check_close(tensors.read(result), expected, dtype)


@pytest.mark.parametrize("dtype", LOW_DTYPES)
@pytest.mark.parametrize("p", [0.0, 0.1, 0.9, 1.0, 1, [0.0, 0.3, 1.0, 0.99, 1e-6]])
def test_top_p_renorm_probs(tensors, rng, dtype, p):
    probs = random_probs(tensors, rng, dtype=dtype)
    rows = p if isinstance(p, list) else [p] * 5
    result = sampling.top_p_renorm_probs(
        probs, as_rows(tensors, p, "float32") if isinstance(p, list) else p)
    assert result.dtype == tensors.dtype("float32")
    expected = np.stack([oracle.top_p(row, np.float32(n))
                         for row, n in zip(tensors.read(probs), rows)])
    assert ((tensors.read(result) > 0) == (expected > 0)).all()
    check_close(tensors.read(result), expected, "float32", 4.0)


def test_renorm_keeps_ties_of_the_lowest_index(tensors):
    probs = tensors.make(np.full((1, 8), 0.125), "float32")
    np.testing.assert_array_equal(tensors.read(sampling.top_k_renorm_probs(probs, 2))[0],
                                  [0.5, 0.5, 0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(tensors.read(sampling.top_p_renorm_probs(probs, 0.25))[0],
                                  [0.5, 0.5, 0, 0, 0, 0, 0, 0])


@pytest.mark.parametrize("dtype", LOW_DTYPES)
def test_top_k_mask_logits(tensors, rng, dtype):
    logits = random_logits(tensors, rng, dtype=dtype)
    values = tensors.read(logits)
    masked = tensors.read(sampling.top_k_mask_logits(logits, as_rows(
        tensors, [1, 0, 130, 131, 9], "int32")))
    for row, k in enumerate([1, 131, 130, 131, 9]):
        kept = oracle.order(values[row])[:k]
        np.testing.assert_array_equal(masked[row, kept], values[row, kept])
        assert np.isneginf(np.delete(masked[row], kept)).all()


def test_names_without_s_are_the_same():
    assert sampling.top_p_renorm_prob is sampling.top_p_renorm_probs
    assert sampling.top_k_renorm_prob is sampling.top_k_renorm_probs


# --- which token ---------------------------------------------------------------------------------


SAMPLERS = {
    "probs": lambda x, **o: sampling.sampling_from_probs(x, **o),
    "top_k": lambda x, **o: sampling.top_k_sampling_from_probs(x, 9, **o),
    "top_p": lambda x, **o: sampling.top_p_sampling_from_probs(x, 0.7, **o),
    "min_p": lambda x, **o: sampling.min_p_sampling_from_probs(x, 0.2, **o),
    "top_k_first": lambda x, **o: sampling.top_k_top_p_sampling_from_probs(x, 9, 0.7, **o),
    "joint": lambda x, **o: sampling.top_k_top_p_sampling_from_probs(
        x, 9, 0.7, filter_apply_order="joint", **o),
}
EXPECTED = {
    "probs": lambda p: p,
    "top_k": lambda p: oracle.top_k(p, 9),
    "top_p": lambda p: oracle.top_p(p, np.float32(0.7)),
    "min_p": lambda p: oracle.min_p(p, np.float32(0.2)),
    "top_k_first": lambda p: oracle.top_p(oracle.top_k(p, 9), np.float32(0.7)),
    "joint": lambda p: oracle.joint(p, 9, np.float32(0.7)),
}


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("seed, offset", [(0, None), (7, 5), (2**64 - 3, 2**34 + 1), (-1, 3)])
def test_tokens_are_those_of_the_random_source(tensors, rng, name, seed, offset):
    probs = random_probs(tensors, rng, rows=40)
    options = {} if offset is None else {"offset": offset}
    tokens = tensors.read(SAMPLERS[name](probs, seed=seed, **options))
    assert tokens.dtype == np.int32
    for row, values in enumerate(tensors.read(probs)):
        uniform = oracle.philox_uniform(seed % 2**64, row, offset or 0)
        assert tokens[row] in oracle.draw(EXPECTED[name](values), uniform), row


@pytest.mark.parametrize("name", SAMPLERS)
def test_distribution(tensors, rng, name):
    num_draws = 20000
    probs = tensors.make(oracle.softmax(rng.standard_normal((2, 37)) / 2), "float32")
    rows = tensors.make(np.ones(num_draws, np.int64))
    tokens = SAMPLERS[name](probs, indices=rows, seed=int(rng.integers(2**63)))
    assert tokens.dtype == rows.dtype and tokens.shape == (num_draws,)
    counts = np.bincount(tensors.read(tokens), minlength=37)
    expected = EXPECTED[name](tensors.read(probs)[1])
    assert counts[expected == 0].sum() == 0
    statistic, limit = oracle.chi_square(counts[expected > 0], expected[expected > 0])
    assert statistic <= limit


def test_from_logits_is_as_from_probs(tensors, rng):
    logits = random_logits(tensors, rng, rows=60)
    probs = sampling.softmax(logits)
    same = np.mean(tensors.read(sampling.sampling_from_logits(logits, seed=3)) ==
                   tensors.read(sampling.sampling_from_probs(probs, seed=3)))
    assert same > 0.98
    for order in ("top_k_first", "joint"):
        from_logits = sampling.top_k_top_p_sampling_from_logits(
            logits, 20, 0.9, filter_apply_order=order, seed=3)
        from_probs = sampling.top_k_top_p_sampling_from_probs(
            probs, 20, 0.9, filter_apply_order=order, seed=3)
        assert np.mean(tensors.read(from_logits) == tensors.read(from_probs)) > 0.98


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_other_dtypes_are_as_float32(tensors, rng, dtype):
    probs = random_probs(tensors, rng, rows=30, dtype=dtype)
    wide = tensors.make(tensors.read(probs), "float32")
    np.testing.assert_array_equal(tensors.read(sampling.sampling_from_probs(probs, seed=1)),
                                  tensors.read(sampling.sampling_from_probs(wide, seed=1)))


# --- parameters and seeds of rows ----------------------------------------------------------------


def test_a_seed_per_row_does_not_depend_on_the_place(tensors, rng):
    probs = random_probs(tensors, rng, rows=20)
    seeds = rng.integers(-2**63, 2**63 - 1, 20)
    offsets = rng.integers(0, 2**40, 20)
    tokens = tensors.read(sampling.sampling_from_probs(
        probs, seed=tensors.make(seeds), offset=tensors.make(offsets)))
    for row, values in enumerate(tensors.read(probs)):
        uniform = oracle.philox_uniform(int(seeds[row]) % 2**64, 0, int(offsets[row]))
        assert tokens[row] in oracle.draw(values, uniform)
    turned = sampling.sampling_from_probs(
        tensors.make(tensors.read(probs)[::-1], "float32"), seed=tensors.make(seeds[::-1].copy()),
        offset=tensors.make(offsets[::-1].copy()))
    np.testing.assert_array_equal(tensors.read(turned)[::-1], tokens)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32"])
def test_a_seed_tensor_of_one_is_a_number(tensors, rng, dtype):
    probs = random_probs(tensors, rng, rows=20)
    number = sampling.sampling_from_probs(probs, seed=5, offset=8)
    for shape in ((1,), ()):
        tensor = sampling.sampling_from_probs(
            probs, seed=tensors.make(np.full(shape, 5, np.dtype(dtype))),
            offset=tensors.make(np.full(shape, 8, np.dtype(dtype))))
        np.testing.assert_array_equal(tensors.read(number), tensors.read(tensor))


def test_parameters_per_row(tensors, rng):
    probs = random_probs(tensors, rng, rows=4)
    values = tensors.read(probs)
    ks, ps = [1, 0, 5, 200], [1.0, 0.5, 0.9, 1e-9]
    tokens = tensors.read(sampling.top_k_top_p_sampling_from_probs(
        probs, as_rows(tensors, ks, "int64"), as_rows(tensors, ps, "float32"), seed=11))
    for row in range(4):
        left = oracle.top_p(oracle.top_k(values[row], ks[row]), np.float32(ps[row]))
        assert tokens[row] in oracle.draw(left, oracle.philox_uniform(11, row, 0))


def test_parameters_with_indices(tensors, rng):
    """top-p and both filters have a value per row of the input; top-k and min-p per output."""
    probs = random_probs(tensors, rng, rows=3)
    best = np.argmax(tensors.read(probs), axis=1)
    indices = tensors.make(np.array([2, 0, 2, 1], np.int32))
    by_row = as_rows(tensors, [0.0, 1.0, 0.0], "float32")
    for seed in range(5):
        tokens = tensors.read(sampling.top_p_sampling_from_probs(probs, by_row, indices, seed=seed))
        assert (tokens[[0, 1, 2]] == best[[2, 0, 2]]).all()
        tokens = tensors.read(sampling.top_k_top_p_sampling_from_probs(
            probs, as_rows(tensors, [1, 0, 1], "int32"), 1.0, indices, seed=seed))
        assert (tokens[[0, 1, 2]] == best[[2, 0, 2]]).all()
        tokens = tensors.read(sampling.top_k_sampling_from_probs(
            probs, as_rows(tensors, [0, 0, 0, 1], "int32"), indices, seed=seed))
        assert tokens[3] == best[1]
        tokens = tensors.read(sampling.min_p_sampling_from_probs(
            probs, as_rows(tensors, [0, 0, 0, 1], "float32"), indices, seed=seed))
        assert tokens[3] == best[1]


def test_edges(tensors):
    one_hot = np.zeros((3, 1000))
    one_hot[:, 1] = 1
    probs = tensors.make(one_hot, "float32")
    tokens = sampling.top_k_top_p_sampling_from_probs(probs, 1073741824, 1.0)
    assert (tensors.read(tokens) == 1).all()
    empty = tensors.make(np.zeros((0, 10)), "float32")
    assert sampling.sampling_from_probs(empty).shape == (0,)
    assert sampling.softmax(empty).shape == (0, 10)
    single = tensors.make(np.full((2, 1), 0.3), "float32")
    assert (tensors.read(sampling.min_p_sampling_from_probs(single, 1.0)) == 0).all()


def test_valid(tensors, rng):
    values = oracle.softmax(rng.standard_normal((4, VOCAB)))
    values[1] = np.nan
    values[2, 77] = np.nan
    values[3] = 0
    probs = tensors.make(values, "float32")
    for sample in SAMPLERS.values():
        tokens, valid = sample(probs, return_valid=True, seed=4)
        assert tensors.read(valid).tolist() == [True, False, False, False]
        assert tensors.read(tokens)[1:].tolist() == [0, 0, 0]
        alone = sample(tensors.make(values[:1], "float32"), seed=4)
        assert tensors.read(tokens)[0] == tensors.read(alone)[0]


# --- where seeds come from -----------------------------------------------------------------------


def test_default_generator(tensors, rng):
    probs = tensors.make(np.full((8, 4096), 1 / 4096), "float32")
    if tensors.name != "numpy":
        import torch

        def restart():
            torch.manual_seed(5)
    else:
        def restart():
            np.random.seed(5)
    restart()
    first = [tensors.read(sampling.sampling_from_probs(probs)) for _ in range(3)]
    restart()
    again = [tensors.read(sampling.sampling_from_probs(probs)) for _ in range(3)]
    np.testing.assert_array_equal(first, again)
    assert (first[0] != first[1]).any() and (first[1] != first[2]).any()


def test_given_generator(tensors):
    probs = tensors.make(np.full((8, 4096), 1 / 4096), "float32")
    if tensors.name != "numpy":
        import torch

        makers = [lambda: torch.Generator().manual_seed(9)]
        if tensors.name == "cuda":
            makers.append(lambda: torch.Generator("cuda").manual_seed(9))
    else:
        makers = [lambda: np.random.default_rng(9), lambda: np.random.RandomState(9)]
    for make in makers:
        one, other = make(), make()
        tokens = [tensors.read(sampling.sampling_from_probs(probs, generator=one))
                  for _ in range(2)]
        assert (tokens[0] != tokens[1]).any()
        np.testing.assert_array_equal(
            tokens[0], tensors.read(sampling.sampling_from_probs(probs, generator=other)))


def test_generator_of_a_cuda_device(monkeypatch):
    """Seed and offset are the generator's, which goes on by a multiple of 4 words."""
    torch = pytest.importorskip("torch", reason="torch is not installed")

    class CudaTensor(torch.Tensor):
        is_cuda = True

    class Generator:
        device = torch.device("cuda")
        offset = 8

        def initial_seed(self):
            return 2**64 - 1

        def get_offset(self):
            return self.offset

        def set_offset(self, offset):
            assert offset % 4 == 0
            self.offset = offset

    rows, generator = torch.zeros(2, 8).as_subclass(CudaTensor), Generator()
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    assert drawn_seed(rows, generator, 1) == (-1, 8)
    assert drawn_seed(rows, generator, 5) == (-1, 12)
    assert generator.offset == 20
    # While a graph is recorded, the seed comes from the device, anew at each replay.
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    seed, offset = drawn_seed(rows, torch.Generator(), 1)
    assert seed.shape == (1,) and seed.dtype == torch.int64 and offset == 0


# --- wrong arguments -----------------------------------------------------------------------------


@pytest.mark.parametrize("change, words", [
    (dict(top_p=1.5), "top_p: is 1.5, accepted: 0 to 1"),
    (dict(top_k=-1), "top_k: is -1"),
    (dict(filter_apply_order="first"), "filter_apply_order: is 'first'"),
    (dict(offset=3), "offset: is given without seed"),
    (dict(top_p=np.ones((3, 1), np.float32)), r"Expected a 1D tensor or scalar.*got a 2D tensor"),
    (dict(top_p=np.array(0.5, np.float32)),
     r"Expected a 1D tensor of shape \(batch_size,\) or scalar.*got a 0-dimensional tensor"),
    (dict(top_k=np.ones(2, np.int32)), "Sampling parameter tensor batch size mismatch"),
    (dict(seed=np.ones(2, np.int64)), r"seed: shape is \[2\], accepted: \[1\], \[3\]"),
    (dict(indices=np.array([0, 3], np.int32)), "indices"),
    (dict(indices=np.array([0, 1], np.float32)), "indices"),
    (dict(probs=np.ones((3, 10), np.float64)), "float64"),
])
def test_wrong_arguments(change, words):
    arguments = dict(probs=np.ones((3, 10), np.float32), top_k=3, top_p=0.5)
    with pytest.raises(ValueError, match=words):
        sampling.top_k_top_p_sampling_from_probs(**{**arguments, **change})


def test_numpy_numbers_are_numbers(rng):
    probs = np.full((2, 10), 0.1, np.float32)
    flashinfer.top_k_top_p_sampling_from_probs(probs, np.int64(3), np.float32(0.5),
                                               seed=np.uint64(2**64 - 1))


def test_check_nan(tensors):
    good = tensors.make(np.full((2, 8), 0.125), "float32")
    bad = tensors.make(np.array([[0.5, np.nan], [0.5, 0.5]]), "float32")
    sampling.sampling_from_probs(good, check_nan=True)
    with pytest.raises(ValueError, match="Input probs contains NaN."):
        sampling.sampling_from_probs(bad, check_nan=True)
    with pytest.raises(ValueError, match="Input logits contains NaN."):
        sampling.sampling_from_logits(bad, check_nan=True)


# --- numbers that are not whole ------------------------------------------------------------------


@pytest.mark.parametrize("change, words", [
    (dict(top_k=2.5), "^top_k: is 2.5, accepted: whole numbers"),
    (dict(top_k=None), "^top_k: is a NoneType, accepted: a number, a tensor"),
    (dict(seed=1.5), "^seed: is 1.5, accepted: whole numbers"),
    (dict(seed=3, offset=0.25), "^offset: is 0.25, accepted: whole numbers"),
])
def test_fractions_are_refused(tensors, rng, change, words):
    probs = random_probs(tensors, rng)
    with pytest.raises((ValueError, TypeError), match=words):
        sampling.top_k_sampling_from_probs(probs, **{"top_k": 3, **change})


def test_fractions_in_tensors_are_refused(tensors, rng):
    probs = random_probs(tensors, rng, rows=2)
    if tensors.name != "cuda":  # looking for them there would wait for the device
        with pytest.raises(ValueError, match="^top_k: has fractions, accepted: whole numbers"):
            sampling.top_k_sampling_from_probs(probs, tensors.make([2.0, 1.5], "float32"))
    with pytest.raises(ValueError, match="^seed: dtype is float32, accepted: integers"):
        sampling.top_k_sampling_from_probs(probs, 3, seed=tensors.make([1.0], "float32"))
    whole = sampling.top_k_sampling_from_probs(probs, tensors.make([1.0, 1.0], "float32"), seed=1)
    assert (tensors.read(whole) == tensors.read(probs).argmax(-1)).all()
    sampling.top_k_sampling_from_probs(probs, 3.0, seed=np.int64(7))
