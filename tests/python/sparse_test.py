# SPDX-License-Identifier: Apache-2.0
"""flashinfer.sparse against float64 NumPy under dense masks."""
import numpy as np
import pytest
from attention_oracle import attention, check_attention

from flashinfer import sparse

HEADS, KV_HEADS, DIM = 4, 2, 64


def workspace(tensors):
    return tensors.full((8 << 20,), 0, "uint8")


def random_blocks(rng, rows, columns):
    """(indptr, indices) of a random matrix of blocks with an empty row."""
    seen = rng.random((rows, columns)) < 0.4
    seen[1] = False
    seen[0, 0] = True
    indptr = np.concatenate([[0], np.cumsum(seen.sum(1))]).astype(np.int32)
    return seen, indptr, seen.nonzero()[1].astype(np.int32)


@pytest.mark.parametrize("has_mask", [False, True])
@pytest.mark.parametrize("R,C", [(1, 1), (4, 16), (16, 4), (3, 8)])
def test_blocks(tensors, rng, R, C, has_mask):
    rows, columns = 5, 6
    M, N = rows * R - (0 if has_mask else R // 2), columns * C
    seen, indptr, indices = random_blocks(rng, rows, columns)
    inside = rng.random((len(indices), R, C)) < 0.6
    dense = np.zeros((rows * R, N), bool)
    for r in range(rows):
        for b in range(indptr[r], indptr[r + 1]):
            column = indices[b]
            dense[r * R:(r + 1) * R, column * C:(column + 1) * C] = (
                inside[b] if has_mask else True)
    q = tensors.make(rng.standard_normal((M, HEADS, DIM)), "float16")
    k, v = (tensors.make(rng.standard_normal((N, KV_HEADS, DIM)), "float16") for _ in range(2))
    wrapper = sparse.BlockSparseAttentionWrapper(workspace(tensors))
    with pytest.raises(ValueError, match="before a successful plan"):
        wrapper.run(q, k, v)
    tables = (tensors.make(indptr), tensors.make(indices))
    sizes = (M, N, R, C, HEADS, KV_HEADS, DIM)
    wrapper.plan(*tables, *sizes, mask=tensors.make(inside) if has_mask else None,
                 logits_soft_cap=3.0, sm_scale=0.2)
    want = attention(*[tensors.read(t) for t in (q, k, v)], mask=dense[:M], soft_cap=3.0,
                     sm_scale=0.2)
    out = tensors.full((M, HEADS, DIM), np.nan, "float16")
    lse = tensors.full((M, HEADS), np.nan, "float32")
    wrapper.run(q, k, v, out=out, lse=lse, return_lse=True)
    check_attention(tensors, out, lse, want, "float16")
    assert (tensors.read(wrapper.run(q, k, v)) == tensors.read(out)).all()
    got = wrapper.forward(q, k, v, sm_scale=0.3)
    check_attention(tensors, got, None, attention(*[tensors.read(t) for t in (q, k, v)],
                                                  mask=dense[:M], sm_scale=0.3), "float16")
    if has_mask:
        flat = tensors.read(sparse.convert_bsr_mask_layout(tensors.make(inside), tables[0]))
        ends = np.cumsum(np.diff(indptr) * R * C)
        bits = np.concatenate([np.packbits(flat[b:e], bitorder="little")
                               for b, e in zip([0, *ends], ends)])
        wrapper.plan(*tables, *sizes, packed_mask=tensors.make(bits), logits_soft_cap=3.0,
                     sm_scale=0.2)
        assert (tensors.read(wrapper.run(q, k, v)) == tensors.read(out)).all()
    with pytest.raises(ValueError, match="M, N, R, C"):
        wrapper.plan(*tables, M + R, N, R, C, HEADS, KV_HEADS, DIM)
    with pytest.raises(NotImplementedError, match="block_mask"):
        wrapper.plan(*tables, *sizes, block_mask=tables[0])
    wrapper.plan(*tables, *sizes)
    with pytest.raises(ValueError, match="k: has"):
        wrapper.run(q, k[:-1], v)


@pytest.mark.parametrize("heads,kv_heads", [(2, 2), (4, 2), (3, 1)])
def test_blocks_of_any_size(tensors, rng, heads, kv_heads):
    rows, columns, q_len, kv_len = 4, 5, 23, 61

    def partition(total, parts):
        cuts = np.sort(rng.choice(np.arange(1, total), parts - 1, replace=False))
        return np.diff(np.concatenate([[0], cuts, [total]]))

    row_sz = np.stack([partition(q_len, rows) for _ in range(kv_heads)]).astype(np.int32)
    col_sz = np.stack([partition(kv_len, columns) for _ in range(kv_heads)]).astype(np.int32)
    blocks = rng.random((kv_heads, rows, columns)) < 0.5
    blocks[0, 2] = False
    q = tensors.make(rng.standard_normal((heads, q_len, DIM)), "float16")
    k, v = (tensors.make(rng.standard_normal((kv_heads, kv_len, DIM)), "float16")
            for _ in range(2))
    wrapper = sparse.VariableBlockSparseAttentionWrapper(workspace(tensors))
    given = [tensors.make(t) for t in (blocks, row_sz, col_sz)]
    wrapper.plan(*given, heads, kv_heads, DIM, q_data_type="float16")
    out = tensors.full(q.shape, np.nan, "float16")
    lse = tensors.full((heads, q_len), np.nan, "float32")
    result = wrapper.run(q, k, v, out=out, lse=lse, return_lse=True)
    assert result[0] is out and result[1] is lse
    group = heads // kv_heads
    want = [[], []]
    for h in range(kv_heads):
        mask = np.repeat(np.repeat(blocks[h], row_sz[h], axis=0), col_sz[h], axis=1)
        o, s = attention(tensors.read(q)[h * group:(h + 1) * group].transpose(1, 0, 2),
                         tensors.read(k)[h][:, None], tensors.read(v)[h][:, None], mask=mask)
        want[0].append(o.transpose(1, 0, 2))
        want[1].append(s.T)
    check_attention(tensors, out, lse, tuple(map(np.concatenate, want)), "float16")
    assert (tensors.read(wrapper.run(q, k, v)) == tensors.read(out)).all()
    with pytest.raises(ValueError, match="block_row_sz"):
        wrapper.plan(given[0], tensors.make(row_sz[:, :-1]), given[2], heads, kv_heads, DIM)
    if kv_heads > 1:
        row_sz[0, 0] += 1
        with pytest.raises(ValueError, match="block_row_sz"):
            wrapper.plan(given[0], tensors.make(row_sz), given[2], heads, kv_heads, DIM)
    with pytest.raises(ValueError, match="k: has shape"):
        wrapper.run(q, k[:, :-1], v)
