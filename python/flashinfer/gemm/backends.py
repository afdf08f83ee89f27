# SPDX-License-Identifier: Apache-2.0
"""Names of the original's matrix products, which all mean the fastest kernel here."""

_BACKENDS = ("auto", "cudnn", "cublas", "cublaslt", "cutlass", "cutile", "tinygemm", "tgv",
             "cute-dsl", "trtllm", "trtllm_low_latency")


def check_backend(backend: str) -> None:
    """Raises ValueError for a name that the original does not have."""
    if backend not in _BACKENDS:
        raise ValueError(f"backend is {backend!r}, accepted: {', '.join(_BACKENDS)}")
