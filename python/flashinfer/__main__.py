# SPDX-License-Identifier: Apache-2.0
"""``python -m flashinfer``: the command line tool."""
from .command import main

main()
