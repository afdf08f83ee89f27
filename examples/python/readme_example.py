# SPDX-License-Identifier: Apache-2.0
"""The example of README.md: attention of one token over its keys, then the next token."""
import numpy as np
import flashinfer

q, k, v = np.random.randn(32, 128), np.random.randn(1000, 8, 128), np.random.randn(1000, 8, 128)
out = flashinfer.single_decode_with_kv_cache(*(x.astype(np.float32) for x in (q, k, v)))
logits = out.reshape(1, -1) @ np.random.randn(32 * 128, 1000).astype(np.float32)
token = flashinfer.top_k_top_p_sampling_from_logits(logits, top_k=40, top_p=0.9, seed=1)
print(f"attention {out.shape}, next token {token[0]}")
