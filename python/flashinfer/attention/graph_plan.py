# SPDX-License-Identifier: Apache-2.0
"""Plans for CUDA graphs: one recording serves every batch that plan() is given later."""
from .._binding import lib, made_for
from .arguments import workspace_address
from .record import MASK_CAUSAL, MASK_NONE


_MOST_REQUESTS = 4096  # of a plan on the device


def is_planned_on_device(fields, variant, num_requests):
    """Whether attention's problem can be; else the host plans, and a recording serves one plan."""
    return (fields["mask"] in (MASK_NONE, MASK_CAUSAL) and fields["fixed_split_size"] == 0
            and num_requests <= _MOST_REQUESTS and (variant is None or variant.is_sinks))


class GraphPlan:
    """Makes a wrapper's plan on the device, of the lengths in a graph's buffers.

    A recording has as many rows as the first batch. For run() of a batch that has fewer, the host
    plans as well.

    Args:
        owner: the wrapper.
        kind: ``"attention"`` or ``"mla"``: what functions of the library begin with.
    """

    def __init__(self, owner, kind):
        self._owner, self._kind = owner, kind
        self._key = None  # of what the plan on the device was made
        self._spare = None  # the host's plan
        self._rows = None  # of the recording
        self._has_spare = False

    def plan(self, record, tables, buffers, maxima, num_rows):
        """`tables` are the host's, `buffers` hold the same on the device. `maxima` are what the
        library's function ends with: the most rows, and of attention the most keys in a row."""
        owner = self._owner
        workspace = owner._float_workspace_buffer
        key = (record, workspace_address(workspace), *maxima)
        if key == self._key:
            getattr(lib, f"{self._kind}_replan_on_device")(owner._plan)
        else:
            self._key = None
            getattr(lib, f"{self._kind}_plan_on_device")(owner._plan, record, workspace, *buffers,
                                                         *maxima)
            self._key = key
        self._rows = maxima[0]
        self._has_spare = num_rows != self._rows
        if self._has_spare:
            if self._spare is None:
                make = getattr(lib, f"{self._kind}_plan_make")
                self._spare = made_for(owner, make(*owner._device))
            getattr(lib, f"{self._kind}_plan")(self._spare, record, workspace, *tables)

    def forget(self):
        """The plan was made anew by others."""
        self._key, self._has_spare = None, False

    def of_rows(self, num_rows):
        """The plan for a run() of so many rows of q."""
        is_spare = self._has_spare and num_rows != self._rows
        return self._spare if is_spare else self._owner._plan
