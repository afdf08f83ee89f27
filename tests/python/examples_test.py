# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/python: they run, and give what float64 NumPy gives."""
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"
sys.path.insert(0, str(EXAMPLES))

import paged_engine  # noqa: E402


def run_example(name):
    done = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_readme_example():
    output = run_example("readme_example.py")
    assert re.fullmatch(r"attention \(32, 128\), next token \d+\n", output)


# --- the paged engine ----------------------------------------------------------------------------


def rms(x):
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-6)


def rotated(x):
    """Rotary positions 0, 1, … of ``[num_tokens, num_heads, head_dim]``, halves paired."""
    half = x.shape[-1] // 2
    angle = np.arange(len(x))[:, None] * 1e4 ** (-np.arange(half) / half)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def attention(q, k, v):
    """Causal, with groups of query heads to a head of keys."""
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(q.shape[-1])
    scores = np.where(np.tri(len(q), dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.einsum("hij,jhd->ihd", weights / weights.sum(axis=-1, keepdims=True), v)


def dense_logits(weights, tokens):
    """Logits after all of `tokens`, without a cache, in float64."""
    e = paged_engine
    w = {name: value.astype(np.float64) for name, value in weights.items()}
    x = w["embedding"][tokens]
    for i in range(e.LAYERS):
        qkv = (rms(x) @ w[f"qkv.{i}"]).reshape(len(tokens), -1, e.HEAD_DIM)
        q, k, v = np.split(qkv, [e.HEADS, e.HEADS + e.KV_HEADS], axis=1)
        x = x + attention(rotated(q), rotated(k), v).reshape(len(tokens), -1) @ w[f"o.{i}"]
        gate, up = np.split(rms(x) @ w[f"up.{i}"], 2, axis=1)
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w[f"down.{i}"]
    return rms(x[-1]) @ w["head"]


class WatchedEngine(paged_engine.Engine):
    """Compares every row of logits with the dense model."""

    def _forward(self, batch):
        logits = super()._forward(batch)
        for request, row in zip(self.running, logits):
            np.testing.assert_allclose(row, dense_logits(self.weights, request.tokens), atol=2e-3)
        return logits


def test_paged_engine(rng):
    weights = paged_engine.random_weights(int(rng.integers(2**31)))

    def requests():
        return [paged_engine.Request(tokens=list(range(1, length)), num_wanted=4, seed=length,
                                     temperature=1.0 + length / 40)
                for length in (2, 17, 18, 40)]

    engine, batch = WatchedEngine(weights), requests()
    for request in batch:  # prompts join while others decode
        engine.add(request)
        engine.step()
    while engine.running:
        engine.step()
    assert sorted(engine.free_pages) == list(range(64))
    for together, alone in zip(batch, requests()):
        engine = paged_engine.Engine(weights)
        engine.add(alone)
        while engine.running:
            engine.step()
        assert together.tokens == alone.tokens


def test_paged_engine_as_a_program():
    assert run_example("paged_engine.py").count("prompt of") == 3


# --- transformers --------------------------------------------------------------------------------


@pytest.mark.parametrize("q_len", [1, 9])
@pytest.mark.parametrize("window", [None, 4])
def test_transformers_attention(rng, q_len, window):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from transformers_attention import flashinfer_attention

    q = rng.standard_normal((2, 4, q_len, 32))
    k, v = rng.standard_normal((2, 2, 2, 9, 32))
    tensors = [torch.from_numpy(x.astype(np.float32)) for x in (q, k, v)]
    out, weights = flashinfer_attention(None, *tensors, None, scaling=0.3, sliding_window=window)
    assert weights is None and out.shape == (2, q_len, 4, 32)
    scores = 0.3 * np.einsum("bhid,bhjd->bhij", q, np.repeat(k, 2, axis=1))
    distance = np.arange(9 - q_len, 9)[:, None] - np.arange(9)
    scores[..., (distance < 0) | (distance >= (window or 9))] = -np.inf
    chances = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    expected = np.einsum("bhij,bhjd->bihd", chances, np.repeat(v, 2, axis=1))
    np.testing.assert_allclose(out.numpy(), expected, atol=1e-5)


def test_transformers_attention_refuses_masks():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from transformers_attention import flashinfer_attention

    x = torch.zeros(1, 1, 2, 8)
    with pytest.raises(NotImplementedError, match="attention_mask"):
        flashinfer_attention(None, x, x, x, torch.zeros(1, 1, 2, 2))


def test_transformers_model():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    from transformers_attention import register

    register()
    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=1000, attn_implementation="eager")
    model = transformers.LlamaForCausalLM(config).eval()
    tokens = torch.randint(1000, (2, 19))
    expected = model(tokens).logits
    generated = model.generate(tokens, max_new_tokens=8, do_sample=False)
    model.set_attn_implementation("infer")
    torch.testing.assert_close(model(tokens).logits, expected, atol=1e-4, rtol=1e-4)
    assert torch.equal(model.generate(tokens, max_new_tokens=8, do_sample=False), generated)
