# SPDX-License-Identifier: Apache-2.0
"""Files of kernels that are downloaded: see the command ``flashinfer pack``."""
from ._pending import pending

download_artifacts = pending("download_artifacts", "is not there; use the command: flashinfer pack")
clear_cubin = pending("clear_cubin", "is not there; use the command: flashinfer pack")
