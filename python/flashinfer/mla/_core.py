# SPDX-License-Identifier: Apache-2.0
"""The original's module of this name, which its test files reach into."""
from ..attention.mla import BatchMLAPagedAttentionWrapper
