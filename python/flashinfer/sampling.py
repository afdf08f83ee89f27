# SPDX-License-Identifier: Apache-2.0
"""Tokens from logits and probabilities, without sorting the vocabulary.

Every filter keeps a prefix of the tokens ordered by (probability descending, index ascending), so
ties go to the lowest index. Each row draws one word of Philox4x32-10, so the same seed and offset
give the same tokens on the CPU and on every GPU. Arguments that all samplers share:

``indices``
    ``[num_outputs]`` int32 or int64: output i is drawn from row ``indices[i]``; None: from row i.
``deterministic``
    Accepted; every result here is repeatable.
``generator``
    Where a seed comes from when none is given: a ``torch.Generator`` of the tensor's device, or a
    NumPy generator for arrays. None: the framework's default one. It is advanced by each call.
``check_nan``
    Raise ValueError when the input has a NaN; waits for the device. While a CUDA graph is
    recorded or torch.compile traces, the check is made on the device and fails there.
``seed``, ``offset``
    Integers, or int64 or uint64 tensors: one element for all rows (row i then draws from
    subsequence i), or one per output (subsequence 0: a row's token does not depend on its place in
    the batch). Raising ``offset`` by one gives a fresh draw. ``offset`` alone is an error; ``seed``
    alone means offset 0.
``return_valid``
    Also return ``[num_outputs]`` bool: whether the row was a distribution. One that is not (NaN,
    negative or infinite values, all 0) gets token 0.
"""
from __future__ import annotations

from typing import Any

from ._binding import lib
from ._sampling_arguments import per_row, sample_filtered, seed_and_offset
from ._tensors import as_dtype, empty, empty_like, framework_of
from .jit.modules import gen_sampling_module


def softmax(logits: Any, temperature: Any = None, enable_pdl: "bool | None" = None) -> Any:
    """Probabilities of logits: softmax(logits / temperature).

    A row that gives no distribution (NaN, +inf, all -inf) becomes NaN.

    Args:
        logits: ``[num_rows, vocab_size]`` float32, float16 or bfloat16; the last dimension dense.
        temperature: a number, or ``[num_rows]``; 0 or more. None: 1. A row of 0 becomes uniform
            over its logits that are not -inf, not a choice of the largest.
        enable_pdl: accepted; launches overlap where the GPU allows it.

    Returns:
        ``[num_rows, vocab_size]`` float32.

    Raises:
        ValueError: a shape or dtype is wrong, or a temperature is negative; names the argument.
    """
    probs = empty(logits.shape, logits, "float32")
    temperature = 1.0 if temperature is None else temperature
    lib.softmax(logits, probs, per_row("temperature", temperature, "float32", logits, None, True))
    return probs


def sampling_from_logits(logits: Any, indices: Any = None, deterministic: bool = True,
                         generator: Any = None, check_nan: bool = False, seed: Any = None,
                         offset: Any = None) -> Any:
    """A token per row from softmax(logits).

    Args:
        logits: ``[num_rows, vocab_size]`` float32, float16 or bfloat16.
        indices, deterministic, generator, check_nan, seed, offset: see
            :mod:`flashinfer.sampling`.

    Returns:
        ``[num_rows]`` int32, or ``[num_outputs]`` in the dtype of `indices`.

    Raises:
        ValueError: a shape, dtype or value is wrong; names the argument.
    """
    return sample_filtered("logits", logits, {}, indices=indices, generator=generator,
                           check_nan=check_nan, seed=seed, offset=offset)


def sampling_from_probs(probs: Any, indices: Any = None, deterministic: bool = True,
                        generator: Any = None, check_nan: bool = False, seed: Any = None,
                        offset: Any = None, return_valid: bool = False) -> Any:
    """A token per row: the first, in vocabulary order, at which the cumulative probability reaches
    the row's uniform number.

    Args:
        probs: ``[num_rows, vocab_size]`` float32, float16 or bfloat16; rows need not sum to 1.
        indices, deterministic, generator, check_nan, seed, offset, return_valid: see
            :mod:`flashinfer.sampling`.

    Returns:
        ``[num_rows]`` int32, or ``[num_outputs]`` in the dtype of `indices`; with `return_valid` a
        pair with ``[num_outputs]`` bool.

    Raises:
        ValueError: a shape, dtype or value is wrong; names the argument.
    """
    return sample_filtered("probs", probs, {}, indices=indices, generator=generator,
                           check_nan=check_nan,
                           seed=seed, offset=offset, return_valid=return_valid)


def top_p_sampling_from_probs(probs: Any, top_p: Any, indices: Any = None,
                              deterministic: bool = True, generator: Any = None,
                              check_nan: bool = False, seed: Any = None, offset: Any = None,
                              return_valid: bool = False) -> Any:
    """A token per row from the fewest largest probabilities that reach `top_p` (Holtzman et al.,
    The Curious Case of Neural Text Degeneration, 2020).

    Args:
        probs: as in :func:`sampling_from_probs`.
        top_p: a number, or ``[num_rows]`` of those of the rows of `probs`; 0 to 1, a share of the
            row's sum. At least one token is kept.
        indices, deterministic, generator, check_nan, seed, offset, return_valid: see
            :mod:`flashinfer.sampling`.

    Returns:
        As :func:`sampling_from_probs`.

    Raises:
        ValueError: a shape, dtype or value is wrong; names the argument.
    """
    return sample_filtered("probs", probs, {"top_p": top_p}, by_source=True, indices=indices,
                           generator=generator, check_nan=check_nan, seed=seed, offset=offset,
                           return_valid=return_valid)


def top_k_sampling_from_probs(probs: Any, top_k: Any, indices: Any = None,
                              deterministic: bool = True, generator: Any = None,
                              check_nan: bool = False, seed: Any = None, offset: Any = None,
                              return_valid: bool = False) -> Any:
    """A token per row from the `top_k` largest probabilities.

    Args:
        probs: as in :func:`sampling_from_probs`.
        top_k: a number, or a tensor with one per output (or per row of `probs`), integers; 0 or
            at least the vocabulary keeps all.
        indices, deterministic, generator, check_nan, seed, offset, return_valid: see
            :mod:`flashinfer.sampling`.

    Returns:
        As :func:`sampling_from_probs`.

    Raises:
        ValueError: a shape, dtype or value is wrong; names the argument.
    """
    return sample_filtered("probs", probs, {"top_k": top_k}, indices=indices, generator=generator,
                           check_nan=check_nan, seed=seed, offset=offset, return_valid=return_valid)


def min_p_sampling_from_probs(probs: Any, min_p: Any, indices: Any = None,
                              deterministic: bool = True, generator: Any = None,
                              check_nan: bool = False, seed: Any = None, offset: Any = None,
                              return_valid: bool = False) -> Any:
    """A token per row from those with at least `min_p` times the largest probability (Nguyen et
    al., Turning Up the Heat, 2024).

    Args:
        probs: as in :func:`sampling_from_probs`.
        min_p: a number, or a tensor with one per output (or per row of `probs`); 0 to 1.
        indices, deterministic, generator, check_nan, seed, offset, return_valid: see
            :mod:`flashinfer.sampling`.

    Returns:
        As :func:`sampling_from_probs`.

    Raises:
        ValueError: a shape, dtype or value is wrong; names the argument.
    """
    return sample_filtered("probs", probs, {"min_p": min_p}, indices=indices, generator=generator,
                           check_nan=check_nan, seed=seed, offset=offset, return_valid=return_valid)


def top_k_top_p_sampling_from_logits(logits: Any, top_k: Any, top_p: Any, indices: Any = None,
                                     filter_apply_order: str = "top_k_first",
                                     deterministic: bool = True, generator: Any = None,
                                     check_nan: bool = False, seed: Any = None,
                                     offset: Any = None) -> Any:
    """A token per row from softmax(logits) after both filters, in one pass over the logits.

    Args:
        logits: as in :func:`sampling_from_logits`.
        top_k: as in :func:`top_k_renorm_probs`.
        top_p: as in :func:`top_p_sampling_from_probs`.
        filter_apply_order: ``"top_k_first"``: top-p looks at what top-k left, renormalised;
            ``"joint"``: both look at the original probabilities.
        indices, deterministic, generator, check_nan, seed, offset: see
            :mod:`flashinfer.sampling`.

    Returns:
        As :func:`sampling_from_logits`.

    Raises:
        ValueError: a shape, dtype or value is wrong; names the argument.
    """
    return sample_filtered("logits", logits, {"top_k": top_k, "top_p": top_p},
                           order=filter_apply_order, by_source=True, indices=indices,
                           generator=generator, check_nan=check_nan, seed=seed, offset=offset)


def top_k_top_p_sampling_from_probs(probs: Any, top_k: Any, top_p: Any, indices: Any = None,
                                    filter_apply_order: str = "top_k_first",
                                    deterministic: bool = True, generator: Any = None,
                                    check_nan: bool = False, seed: Any = None, offset: Any = None,
                                    return_valid: bool = False) -> Any:
    """A token per row of probabilities after both filters.

    Args:
        probs: as in :func:`sampling_from_probs`.
        top_k, top_p, filter_apply_order: as in :func:`top_k_top_p_sampling_from_logits`.
        indices, deterministic, generator, check_nan, seed, offset, return_valid: see
            :mod:`flashinfer.sampling`.

    Returns:
        As :func:`sampling_from_probs`.

    Raises:
        ValueError: a shape, dtype or value is wrong; names the argument.
    """
    return sample_filtered("probs", probs, {"top_k": top_k, "top_p": top_p},
                           order=filter_apply_order, by_source=True, indices=indices,
                           generator=generator, check_nan=check_nan, seed=seed, offset=offset,
                           return_valid=return_valid)


def top_p_renorm_probs(probs: Any, top_p: Any, is_deterministic: bool = False) -> Any:
    """The fewest largest probabilities that reach `top_p`, divided by their sum; the others 0.

    A row that is no distribution becomes NaN.

    Args:
        probs: ``[num_rows, vocab_size]`` float32, float16 or bfloat16; rows need not sum to 1.
        top_p: a number, or ``[num_rows]``; 0 to 1, a share of the row's sum. At least one token is
            kept.
        is_deterministic: accepted; the result is always repeatable.

    Returns:
        ``[num_rows, vocab_size]`` float32.

    Raises:
        ValueError: a shape, dtype or value is wrong; names the argument.
    """
    probs = as_dtype(probs, "float32")
    out = empty_like(probs)
    lib.top_p_renorm_probs(probs, out, per_row("top_p", top_p, "float32", probs, None, True))
    return out


def top_k_renorm_probs(probs: Any, top_k: Any) -> Any:
    """The `top_k` largest probabilities divided by their sum; the others 0.

    A row that is no distribution becomes NaN.

    Args:
        probs: ``[num_rows, vocab_size]`` float32, float16 or bfloat16; rows need not sum to 1.
        top_k: a number, or ``[num_rows]`` integers; 0 or at least the vocabulary keeps all.

    Returns:
        As `probs`.

    Raises:
        ValueError: a shape, dtype or value is wrong; names the argument.
    """
    out = empty_like(probs)
    lib.top_k_renorm_probs(probs, out, per_row("top_k", top_k, "int32", probs, None, True))
    return out


def top_k_mask_logits(logits: Any, top_k: Any) -> Any:
    """All but the `top_k` largest logits become -inf. A row with NaN is copied.

    Args:
        logits: ``[num_rows, vocab_size]`` float32, float16 or bfloat16.
        top_k: a number, or ``[num_rows]`` integers; 0 or at least the vocabulary keeps all.

    Returns:
        As `logits`.

    Raises:
        ValueError: a shape, dtype or value is wrong; names the argument.
    """
    out = empty_like(logits)
    lib.top_k_mask_logits(logits, out, per_row("top_k", top_k, "int32", logits, None, True))
    return out


top_p_renorm_prob = top_p_renorm_probs
top_k_renorm_prob = top_k_renorm_probs


def chain_speculative_sampling(draft_probs: Any, draft_token_ids: Any, target_probs: Any,
                               maybe_output_accepted_token_num: Any = None,
                               maybe_output_emitted_draft_token_num: Any = None,
                               deterministic: bool = True, generator: Any = None, seed: Any = None,
                               offset: Any = None) -> tuple[Any, Any, Any]:
    """Accepts the longest prefix of drafted tokens that keeps the target's distribution, and draws
    one token more (Leviathan et al., Fast Inference from Transformers via Speculative Decoding,
    2023).

    Draft i is accepted iff uniform · draft_probs[i, token] < target_probs[i, token]. The drawn
    token comes from max(0, target - draft) at the first rejection, or from the last position of
    the target when there is none.

    Args:
        draft_probs: ``[num_rows, num_drafts, vocab_size]`` float32.
        draft_token_ids: ``[num_rows, num_drafts]`` int32 or int64.
        target_probs: ``[num_rows, num_drafts + 1, vocab_size]`` float32.
        maybe_output_accepted_token_num: ``[num_rows]`` int32, added to: drafts that would be
            accepted each by itself, also those after the first rejection. Made of zeros when None.
        maybe_output_emitted_draft_token_num: ``[num_rows]`` int32, added to: drafts before the
            first rejection. Made of zeros when None.
        deterministic, generator, seed, offset: see :mod:`flashinfer.sampling`; offsets of the next
            ``num_drafts`` draws are used too.

    Returns:
        ``[num_rows, num_drafts + 1]`` int32: accepted drafts, the drawn token, then -1; and the two
        counters.

    Raises:
        ValueError: a shape, dtype or value is wrong; names the argument.
    """
    num_rows, num_drafts = draft_token_ids.shape
    framework = framework_of(draft_probs)
    accepted, emitted = maybe_output_accepted_token_num, maybe_output_emitted_draft_token_num
    if accepted is None:
        accepted = framework.zeros_like(empty((num_rows,), draft_probs, "int32"))
    if emitted is None:
        emitted = framework.zeros_like(empty((num_rows,), draft_probs, "int32"))
    seed, offset = seed_and_offset(draft_probs, num_rows, generator, seed, offset, num_drafts + 1)
    tokens = empty((num_rows, num_drafts + 1), draft_probs, "int32")
    lib.chain_speculative_sampling(
        as_dtype(draft_probs, "float32"), as_dtype(draft_token_ids, "int32"),
        as_dtype(target_probs, "float32"), tokens, accepted, emitted, seed, offset)
    return tokens, accepted, emitted
