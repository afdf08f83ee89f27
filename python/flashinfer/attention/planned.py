# SPDX-License-Identifier: Apache-2.0
"""What the wrapper classes share: the plan behind them, their workspace, their runs."""
from .._binding import lib, made_for
from .._tensors import dtype_named, empty, empty_like
from .arguments import is_per_head, number, workspace_address
from .graph_plan import GraphPlan, is_planned_on_device
from .record import (
    DEFAULT,
    DTYPE_NAMES,
    MASK_CAUSAL,
    MASK_NONE,
    PROBLEM,
    arch_of,
    backend_name,
    device_of,
    dtype_code,
    layout_code,
    pack,
    pos_encoding_code,
)

_ONES = (1.0, 1.0, 1.0)
_PLAIN = (type(None), bool, int, float, str)


def options(pos_encoding_mode, window_left, logits_soft_cap, sm_scale, rope_scale, rope_theta):
    """The fields of a problem that forward() of the original may change after the plan."""
    return {"window_left": window_left,
            "pos_encoding": pos_encoding_code(pos_encoding_mode),
            "sm_scale": DEFAULT if sm_scale is None else number("sm_scale", sm_scale),
            "logits_soft_cap": logits_soft_cap or 0.0,
            "rope_scale": 1.0 if rope_scale is None else rope_scale,
            "rope_theta": 1e4 if rope_theta is None else rope_theta}


class PlannedWrapper:
    """A plan, and the workspace that it borrows.

    One wrapper serves one stream at a time. Wrappers may share a workspace when their runs do not
    overlap in time. Index tensors on the device, masks and the workspace stay the caller's and
    must live until the last run; the wrapper holds references.
    """

    def __init__(self, float_workspace_buffer, kv_layout="NHD", backend="auto", variant=None):
        self._kv_layout = kv_layout
        self._layout = layout_code(kv_layout)
        self._backend = backend
        self._backend_name = backend_name(backend)
        self._device = device_of(float_workspace_buffer)
        self._use_cuda_graph = False
        self._take_workspace(float_workspace_buffer, None)
        self._plan = made_for(self, lib.attention_plan_make(*self._device))
        self._graph_plan = None
        self._variant = variant
        if variant is not None and not variant.is_sinks:
            lib.attention_use_variant(self._plan, variant.made)
        self._fields = None  # of the planned problem, by name
        self._record = None  # of it, packed; None: nothing is planned
        self._kept = None
        self._asked = None  # what the last forward() changed: the next plan() has it at once
        self._own_fields = None  # of the plan as it was given, while it has more than that
        self._problem_key = None  # arguments of the last _problem(), and what it made of them

    def _take_workspace(self, float_workspace_buffer, int_workspace_buffer):
        address = workspace_address(float_workspace_buffer)
        if address % 16:
            raise ValueError(f"float_workspace_buffer: begins at address {address:#x}, expected a "
                             "multiple of 16")
        self.device = getattr(float_workspace_buffer, "device", self._device)
        self._float_workspace_buffer = float_workspace_buffer
        self._int_workspace_buffer = int_workspace_buffer

    @property
    def is_cuda_graph_enabled(self):
        """Whether index tensors are copied into buffers that a CUDA graph reads."""
        return self._use_cuda_graph

    def reset_workspace_buffer(self, float_workspace_buffer, int_workspace_buffer=None):
        """Takes another workspace, from the next plan() on.

        Args:
            float_workspace_buffer: for partial results of requests whose keys are split; fewer are
                split when it is small. On the wrapper's device, 16-byte aligned.
            int_workspace_buffer: not needed, and kept only: work lists have memory of their own.
        """
        if device_of(float_workspace_buffer) != self._device:
            raise ValueError("float_workspace_buffer: is on (DLPack type, index) "
                             f"{device_of(float_workspace_buffer)}, expected {self._device}")
        self._take_workspace(float_workspace_buffer, int_workspace_buffer)

    def end_forward(self):
        """Does nothing: of the original's older interface."""

    def _workspace_bytes(self, num_requests, num_tokens):
        """What workspace_size() returns for the last _problem(); `num_tokens` 0: a decode."""
        return lib.attention_workspace_bytes(self._problem_record, arch_of(self._device),
                                             num_requests, num_tokens), 0

    def _problem(self, *key):
        """The fields of a record by name, in its order. `key`:
        q_data_type, kv_data_type, o_data_type (None: that of q), num_qo_heads, num_kv_heads,
        head_dim_qk, head_dim_vo, page_size, mask, fixed_split_size, and as in options()."""
        if key != self._problem_key:  # engines plan the same problem for each batch
            self._problem_fields = self._make_problem(*key)
            self._problem_record = pack(PROBLEM, self._problem_fields.values(), self._backend_name)
            # Tensors are equal to themselves after they have changed.
            self._problem_key = key if all(type(x) in _PLAIN for x in key[10:]) else None
        return self._problem_fields

    def _make_problem(self, q_data_type, kv_data_type, o_data_type, num_qo_heads, num_kv_heads,
                      head_dim_qk, head_dim_vo, page_size, mask, fixed_split_size, *opts):
        kv_data_type = q_data_type if kv_data_type is None else kv_data_type
        o_data_type = q_data_type if o_data_type is None else o_data_type
        opts = options(*opts)
        return {"dtype_q": dtype_code("q_data_type", q_data_type),
                "dtype_kv": dtype_code("kv_data_type", kv_data_type),
                "dtype_out": dtype_code("o_data_type", o_data_type),
                "num_qo_heads": num_qo_heads, "num_kv_heads": num_kv_heads,
                "head_dim_qk": head_dim_qk,
                "head_dim_vo": head_dim_qk if head_dim_vo is None else head_dim_vo,
                "page_size": page_size, "kv_layout": self._layout, "mask": mask,
                "window_left": opts["window_left"], "pos_encoding": opts["pos_encoding"],
                "fixed_split_size": fixed_split_size, "sm_scale": opts["sm_scale"],
                "logits_soft_cap": opts["logits_soft_cap"], "rope_scale": opts["rope_scale"],
                "rope_theta": opts["rope_theta"]}

    def _begin_plan(self, qo_indptr, indptr, last_page_len):
        """Starts the copies of tables that _plan_with() will read, so that the device works while
        Python does."""
        if self._device[0] == 2 and getattr(indptr, "is_cuda", True):
            lib.attention_begin_plan(self._plan, qo_indptr, indptr, last_page_len)

    def _plan_with(self, fields, qo_indptr, indptr, indices, last_page_len, mask=None,
                   prefix_len=None, graph=None):
        """Plans; tables are those of attention_plan() of the binding. `graph`: the buffers of a
        graph that hold them, the most rows of q and of keys in a row, and how many rows there
        are."""
        own, record = fields, self._problem_record
        if self._asked is not None:
            fields, record = self._with(own, self._asked)
        self._record = None  # half a plan must not run
        tables = (qo_indptr, indptr, indices, last_page_len, mask, prefix_len)
        if graph is not None and self._device[0] == 2 and is_planned_on_device(
                fields, self._variant, self._fixed_batch_size):
            if self._graph_plan is None:
                self._graph_plan = GraphPlan(self, "attention")
            self._graph_plan.plan(record, tables, *graph)
        else:
            lib.attention_plan(self._plan, record, self._float_workspace_buffer, *tables)
            if self._graph_plan is not None:
                self._graph_plan.forget()
        self._kept = (indices, mask, self._float_workspace_buffer)
        self._fields = fields
        self._record = record
        self._own_fields = None if fields is own else own
        self._out_dtype = DTYPE_NAMES[fields["dtype_out"]]
        # Then out is made like q.
        self._is_like_q = (fields["dtype_q"] == fields["dtype_out"]
                           and fields["head_dim_qk"] == fields["head_dim_vo"])

    def _with(self, fields, changes):
        """(fields, record) with changes; a mask of the caller's stays."""
        if fields["mask"] not in (MASK_NONE, MASK_CAUSAL):
            changes = {name: value for name, value in changes.items() if name != "mask"}
        fields = {**fields, **changes}
        return fields, pack(PROBLEM, fields.values(), self._backend_name)

    def _change(self, **changes):
        """Plans the same batch again when the problem differs: for forward() of the original,
        whose options come after the plan, and then at each step the same."""
        if self._record is None:
            raise ValueError("forward() was called before a successful plan()")
        self._replan(*self._with(self._own_fields or self._fields, changes))
        self._asked, self._own_fields = changes, None

    def _replan(self, fields, record):
        if record != self._record:
            self._record = None
            lib.attention_plan_change(self._plan, record)
            if self._graph_plan is not None:
                self._graph_plan.forget()
            self._record = record
        self._fields = fields

    def _change_to(self, causal, *opts):
        """_change() to what forward() of the prefill wrappers takes."""
        self._change(mask=MASK_CAUSAL if causal else MASK_NONE, **options(*opts))

    def _sink_arguments(self, args):
        """The sinks of a run() of the built-in variant, whose further arguments are (sink,
        sm_scale)."""
        if len(args) != 2:
            raise ValueError(f"run: got {len(args)} arguments behind the keys, expected two: sink, "
                             "sm_scale")
        self._change(sm_scale=float(args[1]))
        return args[0]

    def run_return_lse(self, *args, **kwargs):
        """run() with ``return_lse=True``."""
        return self.run(*args, return_lse=True, **kwargs)

    # What engines compare with their own settings before a run, under the original's names.

    def _planned(self, name):
        fields = self._own_fields or self._fields
        return None if fields is None else fields[name]

    @property
    def _window_left(self):
        return self._planned("window_left")

    @property
    def _logits_soft_cap(self):
        return self._planned("logits_soft_cap")

    @property
    def _sm_scale(self):
        scale = self._planned("sm_scale")
        return None if scale != scale else scale  # NaN: the default

    @property
    def _causal(self):
        return self._planned("mask") == MASK_CAUSAL

    def _check_window(self, window_left):
        if self._fields is not None and window_left != self._window_left:
            raise ValueError(f"window_left: is {window_left}, but plan() was given "
                             f"{self._window_left}")

    def _make_out(self, q):
        if self._record is None:
            raise ValueError("run() was called before a successful plan()")
        if self._is_like_q:
            return empty_like(q)
        return empty((*q.shape[:-1], self._fields["head_dim_vo"]), q, self._out_dtype)

    def _run(self, q, k, v, out, lse, scales=_ONES, tensors=None, values=None):
        """`tensors`: q_scales, k_scales, v_scales, sinks, alibi_slopes, bias. `values`: tensors
        and numbers of a variant."""
        if self._own_fields is not None:  # a run() by itself: what forward() asked for is over
            self._replan(*self._with(self._own_fields, {}))
            self._asked = self._own_fields = None
        plan = self._plan if self._graph_plan is None else self._graph_plan.of_rows(q.shape[0])
        if values is not None:
            own, numbers = values
            lib.attention_run_variant(plan, q, k, v, out, lse, scales,
                                      [*(tensors or [None] * 6), *own], numbers)
        elif tensors is None:
            lib.attention_run(plan, q, k, v, out, lse, *scales)
        else:
            lib.attention_run_with(plan, q, k, v, out, lse, scales, tensors)

    def _run_with(self, q, k, v, out, lse, scales, args, sinks=None):
        """_run() of a wrapper with `args` behind the cache, or scales that are not 1."""
        values = None
        if self._variant is not None:
            if self._variant.is_sinks:
                sinks, args = self._sink_arguments(args), ()
            else:
                values, args = self._variant.values(args), ()
        scales, tensors = scales_and_tensors(*scales, args, sinks)
        self._run(q, k, v, out, lse, scales, tensors, values)


_float32 = {}  # type of a tensor -> its framework's float32


def make_lse(q):
    """A new ``[…]`` float32 for q ``[…, head_dim]``."""
    dtype = _float32.get(type(q))
    if dtype is None:
        dtype = _float32[type(q)] = dtype_named(q, "float32")
    return empty(q.shape[:-1], q, dtype)


def make_out(q, head_dim_vo, dtype=None):
    """A new output for q; `dtype` is a name, or None for that of q."""
    if head_dim_vo == q.shape[-1] and dtype is None:
        return empty_like(q)
    return empty((*q.shape[:-1], head_dim_vo), q, dtype)


def scales_and_tensors(q_scale, k_scale, v_scale, per_head=(), sinks=None):
    """Arguments of PlannedWrapper._run(): scales that are numbers, or tensors of one, and those
    per head; `per_head` are up to three of these in the order q, k, v."""
    if len(per_head) > 3:
        raise ValueError(f"run: got {len(per_head)} positional arguments behind the cache, "
                         "accepted: scales of q, k and v per head")
    numbers = []
    tensors = [*per_head, *[None] * (3 - len(per_head)), sinks, None, None]
    for i, (name, scale) in enumerate((("q_scale", q_scale), ("k_scale", k_scale),
                                       ("v_scale", v_scale))):
        if is_per_head(scale):
            if tensors[i] is not None:
                raise ValueError(f"{name}: is given per head twice")
            tensors[i] = scale
            scale = None
        numbers.append(number(name, scale))
    return numbers, (tensors if any(t is not None for t in tensors) else None)
