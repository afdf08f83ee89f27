# SPDX-License-Identifier: Apache-2.0
"""Decorators with which engines declare the backends and devices of their own operators."""
import functools
import inspect
import sys

from ._errors import BackendSupportedError


def supported_compute_capability(supported_ccs):
    """Notes the compute capabilities, numbers like 90, that a check function answers for."""
    try:
        values = list(supported_ccs)
    except TypeError:
        raise TypeError("supported_ccs must be an iterable of integers, got "
                        f"{type(supported_ccs).__name__}") from None
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"a compute capability must be an integer, got {type(value).__name__}")
    capabilities = set(values)

    def decorate(function):
        function._supported_ccs = capabilities
        function.is_compute_capability_supported = lambda cc: cc in capabilities
        return function

    return decorate


def experimental_backend(function):
    """Marks a check function's backend as one that "auto" does not choose."""
    function._is_experimental = True
    return function


def backend_requirement(backend_checks, common_check=None, heuristic_func=None):
    """Checks the arguments and the device of each call of the decorated function.

    Args:
        backend_checks: backend name -> check function of the same arguments, which returns whether
            the problem is taken; decorated with supported_compute_capability().
        common_check: as those, for all backends.
        heuristic_func: (suitable backends, arguments…) -> backends in the order of preference, for
            ``backend="auto"``; the function finds them as its attribute
            ``suitable_auto_backends``.

    A call with ``skip_check=True`` checks nothing.
    """

    def decorate(function):
        return _Requirement(function, backend_checks, common_check, heuristic_func).wrap()

    return decorate


def _capability_check(check):
    if not hasattr(check, "is_compute_capability_supported"):
        raise ValueError(f"Invalid is_compute_capability_supported call: {check.__name__} does not "
                         "have is_compute_capability_supported decorator")
    return check.is_compute_capability_supported


class _Requirement:
    """What backend_requirement() knows of one function."""

    def __init__(self, function, backend_checks, common_check, heuristic_func):
        self.function = function
        self.backend_checks = backend_checks
        self.common_check = common_check
        self.heuristic_func = heuristic_func
        self.signature = inspect.signature(function)

    def is_backend_supported(self, backend, cc=None):
        if not self.backend_checks:
            raise ValueError("Invalid is_backend_supported call: no backend choices for "
                             f"{self.function.__name__}")
        check = self.backend_checks.get(backend)
        if check is None:
            return False
        return cc is None or _capability_check(check)(cc)

    def is_compute_capability_supported(self, cc):
        if self.backend_checks:
            return any(_capability_check(check)(cc) for check in self.backend_checks.values())
        if self.common_check is None:
            raise ValueError("Invalid @backend_requirement decorator usage: no backend choices and "
                             f"no common_check for {self.function.__name__}")
        return _capability_check(self.common_check)(cc)

    def accepts(self, check, arguments):
        return check is None or bool(check(**arguments))

    def check(self, wrapper, arguments):
        name = self.function.__name__
        backend = arguments.get("backend")
        cc = _capability_of(arguments)
        if not self.backend_checks:
            if not self.is_compute_capability_supported(cc):
                raise BackendSupportedError(f"{name} does not support compute capability {cc}")
            self._check_problem(arguments, [])
        elif backend == "auto":
            self._choose(wrapper, arguments, cc)
        else:
            if not self.is_backend_supported(backend, cc):
                known = ", ".join(self.backend_checks)
                raise BackendSupportedError(f"{name} does not support backend '{backend}' with "
                                            f"compute capability {cc}; backends: {known}")
            self._check_problem(arguments, [self.backend_checks[backend]])

    def _check_problem(self, arguments, checks):
        if not all(self.accepts(c, arguments) for c in [self.common_check, *checks]):
            raise ValueError(f"Problem size is not supported for {self.function.__name__}")

    def _choose(self, wrapper, arguments, cc):
        suitable = []
        if self.accepts(self.common_check, arguments):
            for backend, check in self.backend_checks.items():
                if getattr(check, "_is_experimental", False) or not _capability_check(check)(cc):
                    continue
                try:
                    if check(**arguments):
                        suitable.append(backend)
                except (ValueError, RuntimeError):
                    continue
        if suitable and self.heuristic_func is not None:
            suitable = self.heuristic_func(suitable, **arguments)
        if not suitable:
            raise BackendSupportedError(
                f"No suitable auto backends found for {self.function.__name__}")
        wrapper.suitable_auto_backends = suitable

    def wrap(self):
        @functools.wraps(self.function)
        def wrapper(*args, skip_check=False, **kwargs):
            if not skip_check:
                bound = self.signature.bind(*args, **kwargs)
                bound.apply_defaults()
                self.check(wrapper, dict(bound.arguments))
            return self.function(*args, **kwargs)

        wrapper.is_backend_supported = self.is_backend_supported
        wrapper.is_compute_capability_supported = self.is_compute_capability_supported
        wrapper.has_backend = lambda backend: backend in self.backend_checks
        wrapper.has_backend_choices = lambda: bool(self.backend_checks)
        return wrapper


def _capability_of(arguments):
    """90 for the first tensor on a GPU of compute capability 9.0; None without one."""
    torch = sys.modules.get("torch")
    for value in arguments.values():
        if torch is not None and isinstance(value, torch.Tensor):
            from .utils import get_compute_capability

            major, minor = get_compute_capability(value.device)
            return major * 10 + minor
    return None
