# SPDX-License-Identifier: Apache-2.0
"""The generators under their module's name of older versions."""
from .modules import *
