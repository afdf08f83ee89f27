# SPDX-License-Identifier: Apache-2.0
"""Whether kernels of CuTe DSL are here."""


def is_cute_dsl_available():
    """False: they are not a part of this library."""
    return False
