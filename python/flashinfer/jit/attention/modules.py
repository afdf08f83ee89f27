# SPDX-License-Identifier: Apache-2.0
"""Generators of attention modules: their parameters make the module's name, and nothing else."""
import inspect
from typing import Any

from ..core import JitSpec
from ..modules import spec_named
from ..utils import filename_safe_dtype_map

_DTYPES = "dtype_q dtype_kv dtype_o"
_HEAD = "head_dim_qk head_dim_vo pos_encoding_mode use_sliding_window use_logits_soft_cap"
_USER = ("additional_tensor_names additional_tensor_dtypes additional_scalar_names "
         "additional_scalar_dtypes variant_name variant_decl")
_USER_FLAGS = "pos_encoding_mode=0 use_sliding_window=False use_logits_soft_cap=False"
_POD = ("head_dim pos_encoding_mode_p use_sliding_window_p use_logits_soft_cap_p "
        "use_fp16_qk_reduction dtype_idx pos_encoding_mode_d use_sliding_window_d "
        "use_logits_soft_cap_d")

# Generator -> the module's name before its parameters, and the parameters.
_GENERATORS = {
    "gen_single_decode_module": ("single_decode_with_kv_cache", f"{_DTYPES} {_HEAD}"),
    "gen_batch_decode_module": ("batch_decode_with_kv_cache", f"{_DTYPES} dtype_idx {_HEAD}"),
    "gen_single_prefill_module":
        ("single_prefill_with_kv_cache", f"backend {_DTYPES} {_HEAD} use_fp16_qk_reduction"),
    "gen_batch_prefill_module":
        ("batch_prefill_with_kv_cache",
         f"backend {_DTYPES} dtype_idx {_HEAD} use_fp16_qk_reduction"),
    "gen_batch_prefill_attention_sink_module":
        ("batch_prefill_with_attention_sink", f"backend {_DTYPES} dtype_idx head_dim_qk "
         "head_dim_vo pos_encoding_mode use_sliding_window"),
    "gen_batch_mla_module":
        ("batch_mla_attention",
         f"backend {_DTYPES} dtype_idx head_dim_ckv head_dim_kpe use_profiler"),
    "gen_batch_decode_mla_module":
        ("batch_decode_mla_with_kv_cache", f"{_DTYPES} dtype_idx head_dim num_qo_heads "
         "use_sliding_window use_logits_soft_cap use_tensor_cores"),
    "gen_batch_attention_module":
        ("batch_attention_with_kv_cache", f"{_DTYPES} dtype_idx head_dim_qk head_dim_vo "
         "pos_encoding_mode use_logits_soft_cap use_profiler"),
    "gen_pod_module": ("pod_with_kv_cache", f"{_DTYPES} {_POD}"),
    "gen_batch_pod_module": ("batch_pod_with_kv_cache", f"{_DTYPES} {_POD}"),
    "gen_fmha_v2_module": ("fmha_v2", "input_layout input_dtype output_dtype=None"),
    "gen_trtllm_fmha_v2_sm120_module": ("trtllm_fmha_v2_sm120", ""),
    "gen_customize_single_decode_module":
        ("", f"uri {_DTYPES} head_dim_qk head_dim_vo {_USER} {_USER_FLAGS}"),
    "gen_customize_batch_decode_module":
        ("", f"uri {_DTYPES} idtype head_dim_qk head_dim_vo {_USER} {_USER_FLAGS}"),
    "gen_customize_single_prefill_module":
        ("", f"backend uri {_DTYPES} head_dim_qk head_dim_vo {_USER} {_USER_FLAGS} "
         "use_fp16_qk_reduction=False fp8_enabled=False"),
    "gen_customize_batch_prefill_module":
        ("", f"backend uri {_DTYPES} idtype head_dim_qk head_dim_vo {_USER} {_USER_FLAGS} "
         "use_fp16_qk_reduction=False fp8_enabled=False"),
    "gen_customize_batch_attention_module":
        ("", f"uri {_DTYPES} idtype head_dim_qk head_dim_vo {_USER} pos_encoding_mode=0 "
         "use_logits_soft_cap=False use_profiler=False"),
    "gen_customize_pod_module":
        ("", f"uri {_DTYPES} dtype_idx head_dim additional_tensor_names additional_tensor_dtypes "
         "additional_scalar_names additional_scalar_dtypes variant_name_p variant_name_d "
         "variant_decl pos_encoding_mode_p=0 use_sliding_window_p=False "
         "use_logits_soft_cap_p=False pos_encoding_mode_d=0 use_sliding_window_d=False "
         "use_logits_soft_cap_d=False use_fp16_qk_reduction=False"),
}
# How parameters are called in a module's name.
_WORDS = {"pos_encoding_mode": "posenc", "use_sliding_window": "use_swa",
          "use_logits_soft_cap": "use_logits_cap", "use_fp16_qk_reduction": "f16qk",
          "use_profiler": "profiler"}
_DEFAULTS = {"0": 0, "False": False, "None": None}

__all__ = list(_GENERATORS)


def _signature(words):
    parameters = []
    for word in words.split():
        name, has_default, value = word.partition("=")
        default = _DEFAULTS[value] if has_default else inspect.Parameter.empty
        parameters.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD,
                                            default=default))
    return inspect.Signature(parameters)


def _module_name(prefix, arguments):
    name = prefix
    for word, value in arguments.items():
        if word == "backend" or value is None:
            continue
        if "dtype" in word:
            value = filename_safe_dtype_map[value]
        name += f"_{_WORDS.get(word, word)}_{value}"
    return name + ("_sm90" if arguments.get("backend") == "fa3" else "")


def _spec_of_variant(arguments, transforms_output):
    if "variant_name" not in arguments or "use_profiler" in arguments:
        return spec_named(arguments["uri"], refusal="variants are not there in this operator")
    if arguments["pos_encoding_mode"] not in (0, "NONE"):
        return spec_named(arguments["uri"], refusal="pos_encoding_mode is an argument of plan()")
    from ...attention.variant import Variant

    names = [tuple(arguments[f"additional_{kind}"]) for kind in (
        "tensor_names", "tensor_dtypes", "scalar_names", "scalar_dtypes")]
    return spec_named(arguments["uri"],
                      Variant(arguments["variant_name"], arguments["variant_decl"], *names,
                              transforms_output))


def _generator(name, prefix, words):
    signature = _signature(words)

    def generator(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = bound.arguments
        return (spec_named(_module_name(prefix, arguments)) if prefix
                else _spec_of_variant(arguments, transforms_output="single_decode" not in name))

    generator.__name__ = generator.__qualname__ = name
    generator.__signature__ = signature
    generator.__annotations__ = {**dict.fromkeys(signature.parameters, Any), "return": JitSpec}
    generator.__doc__ = f"The kernels of {prefix or 'a variant of the user'}, as a JitSpec."
    return generator


for _name, (_prefix, _words) in _GENERATORS.items():
    globals()[_name] = _generator(_name, _prefix, _words)
