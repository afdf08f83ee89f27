# SPDX-License-Identifier: Apache-2.0
"""Attention to chosen blocks. Still to come: calls raise NotImplementedError."""
from ._pending import pending_names

pending_names(globals(), functions="""
    msa_proxy_score msa_proxy_score_fp4 msa_sparse_attention msa_sparse_decode_attention
    msa_topk_select
""")
