# SPDX-License-Identifier: Apache-2.0
"""Descriptions of operators for tuning services. Still to come: calls raise NotImplementedError.

``flashinfer replay`` reads the dumps of calls that FLASHINFER_LOGLEVEL=10 writes.
"""
from .._pending import pending_names

pending_names(globals(), functions="default_check", classes="TraceTemplate")
