# SPDX-License-Identifier: Apache-2.0
"""Attention of Hugging Face transformers by this library, under the name "infer".

    register()
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="infer")

(Names with "flash" in them are taken by transformers for kernels to download.)

Queries attend to all keys up to their own position: what decoder models do when no prompt of a
batch is padded. Masks of other kinds are refused.
"""
import torch

import flashinfer


def flashinfer_attention(module, query, key, value, attention_mask, scaling=None, dropout=0.0,
                         sliding_window=None, softcap=None, is_causal=None, **unused):
    """An attention function as transformers calls it.

    Args:
        module: the attention layer.
        query: ``[batch_size, num_qo_heads, q_len, head_dim]``.
        key, value: ``[batch_size, num_kv_heads, kv_len, head_dim]``; kv_len >= q_len, the last
            q_len of which are those of the queries.
        attention_mask: None.
        scaling: None: 1 / sqrt(head_dim).
        dropout: 0.
        sliding_window: keys, its own among them, that a query sees.
        softcap: scores become softcap · tanh(score / softcap).

    Returns:
        (``[batch_size, q_len, num_qo_heads, head_dim]``, None: weights are not kept)
    """
    if attention_mask is not None:
        raise NotImplementedError("attention_mask: is given, accepted: None (no padded prompts)")
    if dropout:
        raise NotImplementedError(f"dropout: is {dropout}, accepted: 0")
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    outputs = [
        flashinfer.single_prefill_with_kv_cache(
            q.transpose(0, 1), k, v, causal=bool(is_causal), kv_layout="HND", sm_scale=scaling,
            window_left=-1 if sliding_window is None else sliding_window - 1,
            logits_soft_cap=softcap)
        for q, k, v in zip(query, key, value)]
    return torch.stack(outputs), None


def no_mask(*args, **kwargs):
    """The mask function of transformers for this attention: there is none."""
    return None


def register():
    """Makes ``attn_implementation="infer"`` known to transformers."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register("infer", flashinfer_attention)
    AttentionMaskInterface.register("infer", no_mask)


def main():
    try:
        from transformers import LlamaConfig, LlamaForCausalLM
    except ImportError:
        print("transformers is not installed: pip install transformers")
        return
    register()
    config = LlamaConfig(hidden_size=256, intermediate_size=512, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, vocab_size=1000,
                         attn_implementation="infer")
    model = LlamaForCausalLM(config).eval()
    tokens = torch.arange(1, 20)[None]
    print(model.generate(tokens, max_new_tokens=8, do_sample=False)[0, 19:].tolist())


if __name__ == "__main__":
    main()
