# SPDX-License-Identifier: Apache-2.0
"""No argument is accepted and not honoured.

For every argument of a call, another value changes what the call returns or writes, or it raises.
Those that may do neither are named in HINTS, with the reason.
"""
import inspect

import numpy as np
import pytest

import flashinfer

HINTS = {
    "enable_pdl": "how launches overlap", "pdl": "how launches overlap",
    "use_pdl": "how launches overlap",
    "non_blocking": "how indices are copied",
    "backend": "which of equal kernels runs", "use_tensor_cores": "which of equal kernels runs",
    "use_fp16_qk_reduction": "a precision that may be kept higher",
    "deterministic": "results always are", "is_deterministic": "results always are",
    "float_workspace_buffer": "scratch memory", "workspace_buffer": "scratch memory",
    "disable_split_kv": "how work is cut up", "fixed_split_size": "how work is cut up",
    "max_seq_len": "an upper bound", "max_q_len": "an upper bound",
    "max_token_per_sequence": "an upper bound", "max_sequence_kv": "an upper bound",
    "max_item_len_ptr": "an upper bound",
    "use_profiler": "timings beside the results", "profiler_buffer": "timings beside the results",
    "dsa_graph_safe": "how work is launched",
    "block_tables": "the same pages once more", "generator": "used where no seed is given",
    "uses_shared_paged_kv_idx": "true of every cache that is one tensor pair",
    "multi_ctas_kv_counter_buffer": "scratch memory",
    "token_pos_in_items_len": "checked against token_pos_in_items_ptr, without which it is unused",
}
SEED = 20240607


class Call:
    """A function with arguments that are made anew for each run, and other values to try.

    `others` gives, for an argument, a value or a list of arguments that change together; float
    tensors need none.
    """

    def __init__(self, name, function, arguments, others=None, hints=()):
        self.name = name
        self.function = function
        self.arguments = arguments
        self.others = others or {}
        self.hints = HINTS.keys() | set(hints)
        self.parameters = [p for p in signature_of(function) if p not in ("self", "args", "kwargs")]

    def run(self, **changes):
        """Arrays that are returned, and those among the arguments that the call wrote."""
        arguments = {**self.arguments(np.random.default_rng(SEED)), **changes}
        arrays = flat(list(arguments.values()))
        copies = [array.copy() for array in arrays]
        results = flat(self.function(**arguments))
        return results + [a for a, copy in zip(arrays, copies) if not same([a], [copy])]


def signature_of(function):
    return getattr(function, "parameters", None) or inspect.signature(function).parameters


def flat(value):
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, (tuple, list)):
        return [array for part in value for array in flat(part)]
    return [] if value is None else [np.asarray(value)]


def same(a, b):
    return len(a) == len(b) and all(
        x.shape == y.shape and x.dtype == y.dtype and
        np.array_equal(x.view(np.uint8) if x.ndim else x, y.view(np.uint8) if y.ndim else y)
        for x, y in zip(a, b))


def planned(wrapper, **init):
    """`plan` and `run` of a wrapper as one function of arguments `plan_…` and `run_…`."""
    def function(**arguments):
        object_ = wrapper(np.zeros(4 << 20, np.uint8), **init)
        part = lambda prefix: {k[len(prefix):]: v for k, v in arguments.items()
                               if k.startswith(prefix)}
        object_.plan(**part("plan_"))
        return object_.run(**part("run_"))

    def names(method, prefix):
        return [prefix + p for p in inspect.signature(method).parameters
                if p not in ("self", "args", "kwargs", "deprecated_positional_args")]
    function.parameters = names(wrapper.plan, "plan_") + names(wrapper.run, "run_")
    return function


def floats(rng, *shape, dtype=np.float16):
    return rng.standard_normal(shape).astype(dtype)


def i32(*values):
    return np.array(values, np.int32)


def probabilities(rng, *shape):
    weights = np.exp(2 * rng.standard_normal(shape))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


# --- Calls ---

def norm_calls():
    def base(rng):
        return {"input": floats(rng, 3, 32), "weight": floats(rng, 32)}

    def residual(rng):
        return {**base(rng), "residual": floats(rng, 3, 32)}

    def quantised(make):
        return lambda rng: {**make(rng), "out": np.zeros((3, 32), np.uint8).view(
            flashinfer_dtype("float8_e4m3fn")), "scale": np.array([0.5], np.float32)}

    eps = {"eps": 0.5}
    yield Call("rmsnorm", flashinfer.rmsnorm, base, {**eps, "out": given_out(3, 32)})
    yield Call("gemma_rmsnorm", flashinfer.gemma_rmsnorm, base, {**eps, "out": given_out(3, 32)})
    yield Call("fused_add_rmsnorm", flashinfer.fused_add_rmsnorm, residual, eps)
    yield Call("gemma_fused_add_rmsnorm", flashinfer.gemma_fused_add_rmsnorm, residual, eps)
    yield Call("rmsnorm_quant", flashinfer.norm.rmsnorm_quant, quantised(base), eps, {"out"})
    yield Call("fused_add_rmsnorm_quant", flashinfer.norm.fused_add_rmsnorm_quant,
               quantised(residual), eps, {"out"})

    def layer(rng):
        return {"input": floats(rng, 3, 32), "gemma": floats(rng, 32, dtype=np.float32),
                "beta": floats(rng, 32, dtype=np.float32)}
    yield Call("layernorm", flashinfer.norm.layernorm, layer, eps)
    yield Call("layernorm_quant", flashinfer.norm.layernorm_quant, quantised(layer), eps, {"out"})
    for name in ("silu_and_mul", "gelu_and_mul", "gelu_tanh_and_mul"):
        yield Call(name, getattr(flashinfer, name), lambda rng: {"input": floats(rng, 3, 32)},
                   {"out": given_out(3, 16)})


def flashinfer_dtype(name):
    return flashinfer._tensors.dtype_named(np.zeros(1), name)


def given_out(*shape, dtype=np.float16):
    """What is given is what comes back."""
    return np.full(shape, 77, dtype)


def rope_calls():
    def heads(rng):
        return {"q": floats(rng, 5, 4, 32), "k": floats(rng, 5, 2, 32)}

    def by_offset(rng):
        return {**heads(rng), "indptr": i32(0, 2, 5), "offsets": i32(3, 9)}

    def by_id(rng):
        return {**heads(rng), "pos_ids": i32(7, 0, 900, 12, 3)}
    others = {"indptr": i32(0, 3, 5), "offsets": i32(4, 9), "pos_ids": i32(7, 1, 900, 12, 3),
              "rotary_dim": 16, "interleave": True, "rope_scale": 3.0, "rope_theta": 500.0,
              "low_freq_factor": 2.0, "high_freq_factor": 9.0, "old_context_len": 512}
    for name in ("apply_rope", "apply_llama31_rope"):
        for suffix, make in (("", by_offset), ("_pos_ids", by_id)):
            for place in ("", "_inplace"):
                full = name + suffix + place
                yield Call(full, getattr(flashinfer, full), make, others)

    def cached(rng):
        return {"positions": i32(7, 0, 90, 12, 3).astype(np.int64), "query": floats(rng, 5, 128),
                "key": floats(rng, 5, 64), "head_size": 32,
                "cos_sin_cache": floats(rng, 100, 32, dtype=np.float32)}
    yield Call("apply_rope_with_cos_sin_cache", flashinfer.apply_rope_with_cos_sin_cache, cached,
               {"positions": i32(7, 1, 90, 12, 3).astype(np.int64), "head_size": 64,
                "is_neox": False})


def page_calls():
    def append(rng):
        return {"append_key": floats(rng, 3, 2, 8), "append_value": floats(rng, 3, 2, 8),
                "batch_indices": i32(0, 0, 1), "positions": i32(4, 5, 1),
                "paged_kv_cache": np.zeros((5, 2, 4, 2, 8), np.float16),
                "kv_indices": i32(3, 0, 2), "kv_indptr": i32(0, 2, 3),
                "kv_last_page_len": i32(2, 2)}
    yield Call("append_paged_kv_cache", flashinfer.append_paged_kv_cache, append,
               {"batch_indices": i32(0, 0, 0), "positions": i32(4, 3, 1),
                "kv_indices": i32(3, 1, 2), "kv_indptr": i32(0, 1, 3),
                "kv_last_page_len": i32(1, 2), "kv_layout": "HND"})
    yield Call("get_batch_indices_positions", flashinfer.get_batch_indices_positions,
               lambda rng: {"append_indptr": i32(0, 2, 5), "seq_lens": i32(9, 4), "nnz": 5},
               {"append_indptr": i32(0, 3, 5), "seq_lens": i32(8, 4), "nnz": 6,
                "batch_indices": i32(*[7] * 5), "positions": i32(*[7] * 5)})
    yield Call("get_seq_lens", flashinfer.get_seq_lens,
               lambda rng: {"kv_indptr": i32(0, 2, 5), "kv_last_page_len": i32(3, 1),
                            "page_size": 4},
               {"kv_indptr": i32(0, 1, 5), "kv_last_page_len": i32(3, 2), "page_size": 8})


ATTENTION = {"pos_encoding_mode": "ROPE_LLAMA", "window_left": 2, "logits_soft_cap": 0.5,
             "sm_scale": 0.9, "return_lse": True, "causal": True, "kv_layout": "HND",
             # With a rotation, without which there is nothing to scale.
             "rope_scale": {"pos_encoding_mode": "ROPE_LLAMA", "rope_scale": 4.0},
             "rope_theta": {"pos_encoding_mode": "ROPE_LLAMA", "rope_theta": 99.0},
             "q_scale": 0.5, "k_scale": 0.5, "v_scale": 0.5, "o_scale": 0.5,
             "scale_q": 0.5, "scale_k": 0.5, "scale_v": 0.5}


def prefixed(prefix, values, names):
    """Other values for arguments `prefix…`, those that change together included."""
    others = {}
    for name in names:
        value = values.get(name)
        if isinstance(value, dict):
            value = {prefix + k: v for k, v in value.items()}
        if name in values:
            others[prefix + name] = value
    return others


def attention_others(function, more):
    """ATTENTION for the plan and run arguments that `function` has."""
    others = {}
    for prefix in ("plan_", "run_"):
        names = [p[len(prefix):] for p in function.parameters if p.startswith(prefix)]
        others.update(prefixed(prefix, ATTENTION, names))
    return {**others, **more}


def single_calls():
    def decode(rng):
        return {"q": floats(rng, 4, 32), "k": floats(rng, 9, 2, 32), "v": floats(rng, 9, 2, 32)}
    yield Call("single_decode", flashinfer.single_decode_with_kv_cache, decode, ATTENTION)

    def prefill(rng):
        return {**decode(rng), "q": floats(rng, 3, 4, 32)}
    mask = np.random.default_rng(1).random((3, 9)) < 0.5
    yield Call("single_prefill", flashinfer.single_prefill_with_kv_cache, prefill, {
        **ATTENTION, "custom_mask": mask,
        "packed_custom_mask": np.packbits(mask.reshape(-1), bitorder="little"),
        "o_dtype": "float32", "kv_cache_sf": np.ones((9, 2), np.float32)})


def paged(rng, dtype=np.float16):
    return floats(rng, 7, 2, 4, 2, 32, dtype=dtype)


PAGES = {"indptr": i32(0, 2, 5), "indices": i32(3, 0, 2, 6, 1), "last_page_len": i32(2, 3)}
OTHER_PAGES = {"indptr": i32(0, 3, 5), "indices": i32(3, 0, 4, 6, 1), "last_page_len": i32(1, 3)}
HEADS = {"num_qo_heads": 4, "num_kv_heads": 2, "page_size": 4}
OTHER_HEADS = {"num_qo_heads": 8, "num_kv_heads": 4, "page_size": 8}
DTYPES = {"q_data_type": "float32", "kv_data_type": "float32", "o_data_type": "float32",
          "data_type": "float32"}


def decode_calls():
    function = planned(flashinfer.BatchDecodeWithPagedKVCacheWrapper)

    def arguments(rng):
        values = {**PAGES, **HEADS, "head_dim": 32, "q_data_type": "float16"}
        return {**{"plan_" + k: v for k, v in values.items()}, "run_q": floats(rng, 2, 4, 32),
                "run_paged_kv_cache": paged(rng)}
    named = ("pos_encoding_mode", "window_left", "logits_soft_cap", "sm_scale", "rope_scale",
             "rope_theta", "q_data_type", "kv_data_type", "o_data_type", "data_type")
    function.parameters += ["plan_" + name for name in named]
    others = attention_others(function, {
        **prefixed("plan_", {**OTHER_PAGES, **OTHER_HEADS, **DTYPES, "head_dim": 64},
                   (*OTHER_PAGES, *OTHER_HEADS, *DTYPES, "head_dim")),
        "run_window_left": 1, "run_sinks": np.ones(4, np.float32), "run_q_len_per_req": 2,
        "run_skip_softmax_threshold_scale_factor": 1.0, "run_kv_cache_sf": np.ones(4, np.float32),
        "run_out": given_out(2, 4, 32),
        "run_lse": {"run_lse": np.full((2, 4), 77, np.float32), "run_return_lse": True}})
    yield Call("BatchDecode", function, arguments, others)


def prefill_calls():
    mask = np.random.default_rng(2).random(2 * 6 + 3 * 11) < 0.6
    packed = [np.packbits(part, bitorder="little") for part in (mask[:12], mask[12:])]
    common = {
        "custom_mask": mask, "packed_custom_mask": np.concatenate(packed),
        "head_dim_qk": 64, "head_dim_vo": 16, "prefix_len_ptr": np.array([1, 2], np.uint32),
        "token_pos_in_items_ptr": np.ones((2, 4), np.uint16), "seq_lens": i32(5, 11),
        "seq_lens_q": i32(1, 4)}

    def others(function, more):
        values = {**common, **DTYPES, **OTHER_HEADS, **more}
        names = [p[5:] for p in function.parameters if p.startswith("plan_")]
        return attention_others(function, {
            **prefixed("plan_", values, [n for n in names if n in values]),
            "run_window_left": 1, "run_sinks": np.ones(4, np.float32),
            "run_skip_softmax_threshold_scale_factor": 1.0, "run_kv_cache_sf": np.ones(4),
            "run_use_fp16_softmax": True, "run_uses_spcompress": True,
            "run_out": given_out(5, 4, 32),
            "run_lse": {"run_lse": np.full((5, 4), 77, np.float32), "run_return_lse": True}})

    function = planned(flashinfer.BatchPrefillWithPagedKVCacheWrapper)

    def arguments(rng):
        pages = {"qo_indptr": i32(0, 2, 5), **{"paged_kv_" + k: v for k, v in PAGES.items()}}
        values = {**pages, **HEADS, "head_dim_qk": 32}
        return {**{"plan_" + k: v for k, v in values.items()}, "run_q": floats(rng, 5, 4, 32),
                "run_paged_kv_cache": paged(rng)}
    yield Call("BatchPrefillPaged", function, arguments, others(function, {
        "qo_indptr": i32(0, 3, 5), **{"paged_kv_" + k: v for k, v in OTHER_PAGES.items()}}))

    ragged = planned(flashinfer.BatchPrefillWithRaggedKVCacheWrapper)

    def of_ragged(rng):
        values = {"qo_indptr": i32(0, 2, 5), "kv_indptr": i32(0, 6, 17), "num_qo_heads": 4,
                  "num_kv_heads": 2, "head_dim_qk": 32}
        return {**{"plan_" + k: v for k, v in values.items()}, "run_q": floats(rng, 5, 4, 32),
                "run_k": floats(rng, 17, 2, 32), "run_v": floats(rng, 17, 2, 32)}
    yield Call("BatchPrefillRagged", ragged, of_ragged, others(ragged, {
        "qo_indptr": i32(0, 3, 5), "kv_indptr": i32(0, 7, 17), "v_indptr": i32(0, 7, 17),
        "o_indptr": i32(0, 3, 5)}))


def latent_calls():
    function = planned(flashinfer.mla.BatchMLAPagedAttentionWrapper)

    def arguments(rng):
        values = {"qo_indptr": i32(0, 2, 3), "kv_indptr": i32(0, 2, 4),
                  "kv_indices": i32(3, 0, 2, 1), "kv_len_arr": i32(6, 7), "num_heads": 4,
                  "head_dim_ckv": 512, "head_dim_kpe": 64, "page_size": 4, "causal": False,
                  "sm_scale": 0.07, "q_data_type": "float16", "kv_data_type": "float16"}
        return {**{"plan_" + k: v for k, v in values.items()},
                "run_q_nope": floats(rng, 3, 4, 512), "run_q_pe": floats(rng, 3, 4, 64),
                "run_ckv_cache": floats(rng, 5, 4, 512), "run_kpe_cache": floats(rng, 5, 4, 64)}
    others = {"plan_qo_indptr": i32(0, 1, 3), "plan_kv_indptr": i32(0, 1, 4),
              "plan_kv_indices": i32(3, 0, 2, 4), "plan_kv_len_arr": i32(5, 7),
              "plan_num_heads": 8, "plan_head_dim_ckv": 256, "plan_head_dim_kpe": 32,
              "plan_page_size": 8, "plan_causal": True, "plan_sm_scale": 0.2,
              "plan_q_data_type": "float32", "plan_kv_data_type": "float32",
              "run_out": given_out(3, 4, 512), "run_return_lse": True,
              "run_lse": {"run_lse": np.full((3, 4), 77, np.float32), "run_return_lse": True},
              "run_kv_len": i32(5, 7), "run_page_table": i32(1, 2).reshape(2, 1),
              "run_return_lse_base_on_e": {"run_return_lse": True,
                                           "run_return_lse_base_on_e": True},
              "run_o_scale": 0.5, "run_ckv_scale": 0.5, "run_kpe_scale": 0.5,
              "run_ckv_scale_arr": np.ones(4, np.float32)}
    yield Call("BatchMLA", function, arguments, others)


def merge_calls():
    def two(rng):
        return {"v_a": floats(rng, 3, 4, 8), "s_a": floats(rng, 3, 4, dtype=np.float32),
                "v_b": floats(rng, 3, 4, 8), "s_b": floats(rng, 3, 4, dtype=np.float32)}
    yield Call("merge_state", flashinfer.merge_state, two)
    yield Call("merge_state_in_place", flashinfer.merge_state_in_place,
               lambda rng: dict(zip(("v", "s", "v_other", "s_other"), two(rng).values())),
               {"mask": np.array([True, False, True])})
    yield Call("merge_states", flashinfer.merge_states,
               lambda rng: {"v": floats(rng, 3, 5, 4, 8),
                            "s": floats(rng, 3, 5, 4, dtype=np.float32)})


def sampling_calls():
    s = flashinfer.sampling
    rows = 24  # so many that other numbers give other tokens

    def probs(rng):
        return {"probs": probabilities(rng, rows, 40), "seed": 5, "offset": 0}

    def logits(rng):
        return {"logits": floats(rng, rows, 40, dtype=np.float32), "seed": 5, "offset": 0}
    nan = np.full((rows, 40), np.nan, np.float32)
    others = {"seed": 6, "offset": 4, "indices": i32(*range(rows))[::-1].copy(),
              "return_valid": True, "top_k": 1, "top_p": 0.1, "min_p": 0.9,
              "filter_apply_order": "joint",
              "check_nan": {"check_nan": True, "probs": nan}}
    of_logits = {**others, "check_nan": {"check_nan": True, "logits": nan}}
    yield Call("sampling_from_probs", s.sampling_from_probs, probs, others)
    yield Call("sampling_from_logits", s.sampling_from_logits, logits, of_logits)
    yield Call("top_k_sampling", s.top_k_sampling_from_probs,
               lambda rng: {**probs(rng), "top_k": 20}, others)
    yield Call("top_p_sampling", s.top_p_sampling_from_probs,
               lambda rng: {**probs(rng), "top_p": 0.95}, others)
    yield Call("min_p_sampling", s.min_p_sampling_from_probs,
               lambda rng: {**probs(rng), "min_p": 0.01}, others)
    # Where the order matters: few tokens are kept, and their shares grow.
    both = {"top_k": 4, "top_p": 0.5}
    yield Call("top_k_top_p_from_probs", s.top_k_top_p_sampling_from_probs,
               lambda rng: {**probs(rng), **both}, others)
    yield Call("top_k_top_p_from_logits", s.top_k_top_p_sampling_from_logits,
               lambda rng: {**logits(rng), **both}, of_logits)
    yield Call("top_p_renorm", s.top_p_renorm_probs,
               lambda rng: {"probs": probabilities(rng, 3, 40), "top_p": 0.8}, others)
    yield Call("top_k_renorm", s.top_k_renorm_probs,
               lambda rng: {"probs": probabilities(rng, 3, 40), "top_k": 9}, others)
    yield Call("top_k_mask_logits", s.top_k_mask_logits,
               lambda rng: {"logits": floats(rng, 3, 40, dtype=np.float32), "top_k": 9}, others)
    yield Call("softmax", s.softmax, lambda rng: {"logits": floats(rng, 3, 40, dtype=np.float32)},
               {"temperature": 0.5})
    # All values alike: which of them are taken is a matter of ties.
    yield Call("top_k", flashinfer.top_k,
               lambda rng: {"input": np.repeat(floats(rng, 3, 20, dtype=np.float32), 2, 1), "k": 9},
               {"k": 8, "sorted": True, "tie_break": 2})

    def chain(rng):
        return {"draft_probs": probabilities(rng, rows, 3, 40),
                "draft_token_ids": rng.integers(0, 40, (rows, 3), np.int32),
                "target_probs": probabilities(rng, rows, 4, 40), "seed": 5, "offset": 0}
    counts = np.full(rows, 3, np.int32)
    yield Call("chain_speculative", s.chain_speculative_sampling, chain, {
        **others, "draft_token_ids": np.zeros((rows, 3), np.int32),
        "maybe_output_accepted_token_num": counts, "maybe_output_emitted_draft_token_num": counts})


def quantization_calls():
    bits = np.random.default_rng(3).random(37) < 0.5
    yield Call("packbits", flashinfer.packbits, lambda rng: {"x": bits.copy()},
               {"x": ~bits, "bitorder": "little"})
    yield Call("segment_packbits", flashinfer.segment_packbits,
               lambda rng: {"x": bits.copy(), "indptr": i32(0, 11, 37)},
               {"x": ~bits, "indptr": i32(0, 12, 37), "bitorder": "little"})


CALLS = {call.name: call for make in (
    norm_calls, rope_calls, page_calls, single_calls, decode_calls, prefill_calls, latent_calls,
    merge_calls, sampling_calls, quantization_calls) for call in make()}


def is_hint(call, name):
    return name.removeprefix("plan_").removeprefix("run_") in call.hints or name in call.hints


def test_a_generator_draws_what_no_seed_names():
    def draw(generator):
        probs = probabilities(np.random.default_rng(SEED), 64, 40)
        return flashinfer.sampling.sampling_from_probs(probs, generator=generator)
    first = draw(np.random.default_rng(8))
    assert np.array_equal(first, draw(np.random.default_rng(8)))
    assert not np.array_equal(first, draw(np.random.default_rng(9)))
    advanced = np.random.default_rng(8)
    draw(advanced)
    assert not np.array_equal(first, draw(advanced))


@pytest.mark.parametrize("name", CALLS)
def test_every_argument_is_honoured(name):
    call = CALLS[name]
    before = call.run()
    assert same(before, call.run()), "two runs differ"
    arguments = call.arguments(np.random.default_rng(SEED))
    ignored = []
    for parameter in call.parameters:
        if is_hint(call, parameter):
            continue
        if parameter in call.others:
            other = call.others[parameter]
            changes = other if isinstance(other, dict) else {parameter: other}
        else:
            value = arguments.get(parameter)
            assert isinstance(value, np.ndarray) and value.dtype.kind in "fV", (
                f"{parameter}: no other value is named here")
            flipped = np.flip(value.astype(np.float32), -1)  # norms do not see shifts and factors
            changes = {parameter: (0.5 * flipped + 0.1).astype(value.dtype)}
        # What else changes along with it must not be what makes the difference.
        along = {k: v for k, v in changes.items() if k != parameter}
        try:
            base = call.run(**along) if along and parameter != "check_nan" else before
            after = call.run(**changes)
        except (ValueError, NotImplementedError, TypeError):
            continue
        if same(base, after):
            ignored.append(parameter)
    assert not ignored, f"another value of {ignored} changes nothing and raises nothing"
