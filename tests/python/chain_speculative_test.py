# SPDX-License-Identifier: Apache-2.0
"""flashinfer.sampling.chain_speculative_sampling against float64 NumPy."""
import numpy as np
import pytest
import sampling_oracle as oracle

from flashinfer import sampling


def chain(draft, tokens, target, seed):
    """One row: the tokens, how many drafts would be accepted, how many were."""
    num_drafts = len(tokens)
    uniforms = [oracle.philox_uniform(*seed, i) for i in range(num_drafts + 1)]
    good = [uniforms[i] * draft[i, t] < target[i, t] for i, t in enumerate(tokens)]
    emitted = good.index(False) if False in good else num_drafts
    rest = target[emitted]
    if emitted < num_drafts:
        rest = np.maximum(0, target[emitted] - draft[emitted])
    last = oracle.draw(rest / rest.sum(), uniforms[num_drafts])
    return list(tokens[:emitted]), last, sum(good), emitted


@pytest.mark.parametrize("id_dtype", [np.int32, np.int64])
def test_chain_speculative_sampling(tensors, rng, id_dtype):
    rows, num_drafts, vocab = 30, 3, 17
    draft = oracle.softmax(rng.standard_normal((rows, num_drafts, vocab))).astype(np.float32)
    target = oracle.softmax(rng.standard_normal((rows, num_drafts + 1, vocab))).astype(np.float32)
    ids = rng.integers(0, vocab, (rows, num_drafts)).astype(id_dtype)
    accepted = tensors.make(np.full(rows, 100, np.int32))
    emitted = tensors.make(np.zeros(rows, np.int32))
    tokens, counted, sent = sampling.chain_speculative_sampling(
        tensors.make(draft), tensors.make(ids), tensors.make(target), accepted, emitted, seed=21)
    assert counted is accepted and sent is emitted
    tokens, counted, sent = map(tensors.read, (tokens, counted, sent))
    for row in range(rows):
        prefix, last, num_good, num_sent = chain(
            draft[row].astype(np.float64), ids[row], target[row].astype(np.float64), (21, row))
        assert counted[row] == 100 + num_good and sent[row] == num_sent
        assert tokens[row, :num_sent].tolist() == prefix
        assert tokens[row, num_sent] in last
        assert (tokens[row, num_sent + 1:] == -1).all()


def test_chain_speculative_sampling_makes_counters(tensors):
    draft = tensors.make(np.full((2, 1, 4), 0.25), "float32")
    target = tensors.make(np.full((2, 2, 4), 0.25), "float32")
    tokens, accepted, emitted = sampling.chain_speculative_sampling(
        draft, tensors.make(np.zeros((2, 1), np.int32)), target)
    assert tokens.shape == (2, 2)
    assert tensors.read(accepted).tolist() == tensors.read(emitted).tolist() == [1, 1]
