# SPDX-License-Identifier: Apache-2.0
"""Descriptions of calls for tuning services. Still to come: calls raise NotImplementedError."""
from ._pending import pending

fi_trace = pending("fi_trace")
