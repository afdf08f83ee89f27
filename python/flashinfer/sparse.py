# SPDX-License-Identifier: Apache-2.0
"""Attention under masks of blocks: the original's module of this name."""
from .attention.block_sparse import BlockSparseAttentionWrapper, convert_bsr_mask_layout
from .attention.variable_block_sparse import VariableBlockSparseAttentionWrapper
