# SPDX-License-Identifier: Apache-2.0
"""Names of products whose operators are still to come."""
from ._pending import pending

trtllm_low_latency_gemm = pending("trtllm_low_latency_gemm")
prepare_low_latency_gemm_weights = pending("prepare_low_latency_gemm_weights")
