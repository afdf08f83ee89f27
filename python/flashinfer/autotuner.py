# SPDX-License-Identifier: Apache-2.0
"""Choosing among ways to run an operator of an engine by measuring them.

The library's own operators choose without it: ``autotune()`` is accepted around their calls and
changes nothing there. An engine's runners are measured while ``autotune()`` is in force, once for
each bucket of shapes; outside it the best that is known runs, or the first with its default.
"""
from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import threading
import typing
from typing import Any

from ._pending import refuse
from ._tensors import Tensor
from .testing.timing import bench_gpu_time
from .utils import last_positive_power_of_2


def round_to_nearest_bucket(x: int, buckets: Any, round_map: bool = False) -> int:
    """The largest bucket that is at most `x`; with `round_map` the smallest that is at least `x`;
    else the one at the end."""
    ordered = sorted(buckets)
    if round_map:
        return next((bucket for bucket in ordered if bucket >= x), ordered[-1])
    return next((bucket for bucket in reversed(ordered) if bucket <= x), ordered[0])


def make_bucket_mapper(buckets: Any, round_map: bool = False) -> Any:
    """round_to_nearest_bucket() of these buckets."""
    fixed = tuple(sorted(buckets))
    return lambda x: round_to_nearest_bucket(x, fixed, round_map)


@dataclasses.dataclass(frozen=True)
class DynamicTensorSpec:
    """Dimensions that vary: dimension ``dim_idx[i]`` of input ``input_idx[i]``."""

    input_idx: tuple
    dim_idx: tuple
    gen_tuning_buckets: typing.Any
    map_to_tuning_buckets: typing.Callable = last_positive_power_of_2


@dataclasses.dataclass(frozen=True)
class ConstraintSpec:
    """A dimension that follows from others: ``infer_shape(shapes)``."""

    input_idx: int
    dim_idx: int
    infer_shape: typing.Callable


@dataclasses.dataclass(frozen=True)
class TuningConfig:
    dynamic_tensor_specs: tuple = ()
    constraint_specs: tuple = ()
    tensor_initializers: tuple = ()
    use_cold_l2_cache: bool = False
    use_cuda_graph: bool = False
    value_aware_input_indices: tuple = ()
    profile_arena_input_indices: tuple = ()
    inputs_pre_hook: typing.Optional[typing.Callable] = None


class TunableRunner:
    """A way to run an operator, with tactics; -1 is the tactic that always works."""

    def get_valid_tactics(self, inputs: Any, profile: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}.get_valid_tactics")

    def get_cache_key_extras(self, inputs: Any) -> Any:
        return ()

    def forward(self, inputs: Any, tactic: int = -1, do_preparation: bool = False,
                **kwargs: Any) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}.forward")

    def __call__(self, inputs, **kwargs):
        return self.forward(inputs, **kwargs)


class AutoTuner:
    """What was measured; one object a process: ``AutoTuner.get()``."""

    _instance = None
    _lock = threading.Lock()

    def __init__(self, warmup: int = 3, repeat: int = 10,
                 stream_delay_micro_secs: int = 5000) -> None:
        self.warmup = warmup
        self.repeat = repeat
        self.is_tuning_mode = False
        self._best = {}  # key of a problem -> (place of the runner, tactic)

    @classmethod
    def get(cls) -> Any:
        with cls._lock:
            if cls._instance is None:
                cls._instance = cls()
            return cls._instance

    def _key(self, custom_op, runners, tuning_config, inputs):
        shapes = [list(getattr(x, "shape", ())) for x in inputs]
        for spec in tuning_config.dynamic_tensor_specs:
            for i, dim in zip(spec.input_idx, spec.dim_idx):
                shapes[i][dim] = spec.map_to_tuning_buckets(shapes[i][dim])
        for spec in tuning_config.constraint_specs:
            shapes[spec.input_idx][spec.dim_idx] = -1
        extras = [[type(runner).__name__, list(map(str, runner.get_cache_key_extras(inputs)))]
                  for runner in runners]
        return json.dumps([custom_op, shapes, extras])

    def choose_one(self, custom_op: Any, runners: Any, tuning_config: Any, inputs: Any,
                   **kwargs: Any) -> Any:
        """The runner and the tactic for these inputs."""
        key = self._key(custom_op, runners, tuning_config, inputs)
        best = self._best.get(key)
        if best is None and self.is_tuning_mode:
            ranked = self._measure(runners, tuning_config, inputs, kwargs)
            best = self._best[key] = ranked[0][1:] if ranked else (0, -1)
        place, tactic = (0, -1) if best is None else best
        return runners[place], tactic

    def rank_tactics(self, custom_op: Any, runners: Any, tuning_config: Any, inputs: Any,
                     k: int = 1, **kwargs: Any) -> Any:
        """The `k` fastest (runner, tactic) pairs, measured now."""
        ranked = self._measure(runners, tuning_config, inputs, kwargs)
        return [(runners[place], tactic) for _, place, tactic in ranked[:k]]

    def _measure(self, runners, tuning_config, inputs, kwargs):
        """(milliseconds, place of the runner, tactic), the fastest first; without what fails."""
        if tuning_config.inputs_pre_hook is not None:
            inputs = tuning_config.inputs_pre_hook(inputs)
        ranked = []
        for place, runner in enumerate(runners):
            for tactic in runner.get_valid_tactics(inputs, None):
                try:
                    times = bench_gpu_time(
                        lambda: runner(inputs, tactic=tactic, **kwargs), self.warmup, self.repeat,
                        use_cuda_graph=tuning_config.use_cuda_graph,
                        cold_l2_cache=tuning_config.use_cold_l2_cache)
                except (RuntimeError, ValueError):
                    continue
                ranked.append((min(times), place, tactic))
        return sorted(ranked, key=lambda row: row[0])

    def save_configs(self, path: Any) -> None:
        """Writes what was measured as JSON."""
        pathlib.Path(path).write_text(json.dumps(self._best, indent=1, sort_keys=True))

    def load_configs(self, path: Any) -> bool:
        """Reads what save_configs() wrote; False when there is no such file."""
        path = pathlib.Path(path)
        if not path.exists():
            return False
        self._best.update({key: tuple(best) for key, best in json.loads(path.read_text()).items()})
        return True

    def clear_cache(self) -> None:
        self._best.clear()

    def reset_statistics(self) -> None:
        """Accepted: no statistics are kept."""


@contextlib.contextmanager
def autotune(tune_mode: bool = True, cache: Any = None, tuning_buckets: Any = None,
             round_up: Any = None, skip_ops: Any = None) -> Any:
    """Measures runners of an engine within; the library's own operators need none of it.

    Args:
        tune_mode: False: only what is known is used.
        cache: a file that is read before, and written after when something was measured.
        tuning_buckets, round_up, skip_ops: not implemented; buckets are those of each operator's
            TuningConfig.
    """
    refuse("autotune", tuning_buckets=tuning_buckets, round_up=round_up, skip_ops=skip_ops)
    tuner = AutoTuner.get()
    if cache is not None:
        tuner.load_configs(cache)
    before, tuner.is_tuning_mode = tuner.is_tuning_mode, tune_mode
    known = len(tuner._best)
    try:
        yield tuner
    finally:
        tuner.is_tuning_mode = before
        if cache is not None and tune_mode and len(tuner._best) != known:
            tuner.save_configs(cache)


def set_autotune_process_group(group: Any) -> None:
    """Accepted: measurements of one process are not shared with others."""
    global _process_group
    _process_group = group


def get_autotune_process_group() -> Any:
    """What set_autotune_process_group() was given, or None."""
    return _process_group


_process_group = None
