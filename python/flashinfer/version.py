# SPDX-License-Identifier: Apache-2.0
"""The version of the package, that of include/flashinfer/version.h."""
__version__ = "0.1.0"
