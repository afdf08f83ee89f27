# SPDX-License-Identifier: Apache-2.0
"""Latent attention: the original's module of this name."""
from ._core import BatchMLAPagedAttentionWrapper
