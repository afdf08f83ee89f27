# SPDX-License-Identifier: Apache-2.0
"""The functions of libflashinfer, loaded at the first call: ``lib.rmsnorm(x, weight, out, eps)``.

They write into the tensors that they are given and return None, a number, or a plan. Tensors are
whatever DLPack knows (torch, NumPy, CuPy, JAX), and None where an argument is optional.
"""
import os
import pathlib
import re
import sys
import threading
import weakref

from . import _compiling, _errors

_PACKAGE = pathlib.Path(__file__).resolve().parent
_BINDING = "libflashinfer_tvm_ffi.so"


def library_folders():
    """Where the libraries are looked for: in FLASHINFER_LIBRARY_DIR when that is set; in the
    package; beside a source tree, in its build."""
    given = os.environ.get("FLASHINFER_LIBRARY_DIR")
    if given:
        return [pathlib.Path(given)]
    source = _PACKAGE.parent.parent
    folders = [_PACKAGE / "lib"]
    if (source / "CMakePresets.json").exists():
        folders.append(source / "build" / "release" / "lib")
    return folders


def _find_binding():
    folders = library_folders()
    for folder in folders:
        if (folder / _BINDING).exists():
            return folder / _BINDING
    places = ", ".join(str(folder) for folder in folders)
    raise ImportError(f"{_BINDING} is in none of: {places}")


def _load():
    import tvm_ffi  # 50 ms, and torch where it is installed: not before the first call

    tvm_ffi.register_error("BufferError", BufferError)
    for name in ("BackendSupportedError", "CompileError", "DeviceError", "MissingJITCacheError"):
        tvm_ffi.register_error("flashinfer." + name, getattr(_errors, name))
    tvm_ffi.register_error("NotImplementedError", NotImplementedError)
    tvm_ffi.register_error("OSError", OSError)
    # Never unloaded: objects of the library may outlive every Python name of it.
    return tvm_ffi.load_module(str(_find_binding()), keep_module_alive=True)


#: Objects that the library made, by id(): torch ops take that in place of one.
made_objects = {}


def made_for(owner, made):
    """`made`, an object of the library, which torch ops find as long as `owner` lives."""
    made_objects[id(made)] = made
    weakref.finalize(owner, made_objects.pop, id(made), None).atexit = False
    return made


def _exported(name, function, as_tensor):
    """`function`, whose arguments may also be arrays that do not export themselves by DLPack.

    Under torch.compile, the torch op of that name."""

    def eager(*args):
        if "jax" in sys.modules:
            _refuse_unwritable(name, args)
        try:
            return function(*args)
        except BufferError:  # raised while arguments are converted: nothing has run yet
            return _call_checked(name, function, args, as_tensor)
        except (TypeError, ValueError) as error:
            raise _with_argument(name, args, error) from None

    def call(*args):
        if _compiling.ask():
            return _as_torch_op(name, args)
        if "jax" in sys.modules:
            _refuse_unwritable(name, args)
        try:  # as eager(), without another call
            return function(*args)
        except BufferError:
            return eager(*args)
        except (TypeError, ValueError) as error:
            raise _with_argument(name, args, error) from None

    call.eager = eager
    call.function = function
    return call


def _refuse_unwritable(name, args):
    """Raises for an array of JAX, which gives its memory away by DLPack, where it would be written
    to."""
    from ._tensors import is_of_jax
    from .signatures import written_arguments

    for place, argument in written_arguments(name).items():
        if place < len(args) and is_of_jax(args[place]):
            raise ValueError(f"{argument}: is an array of JAX, which cannot be written to; "
                             "accepted: tensors of torch, arrays of NumPy and CuPy")


def _as_torch_op(name, args):
    from . import torch_ops

    return torch_ops.call(name, args)


def _call_checked(name, function, args, as_tensor):
    """`function` of tensors that need a look, or do not export themselves by DLPack."""
    from .signatures import argument_names

    for argument, value in zip(argument_names(name), args):
        if getattr(value, "is_neg", bool)():
            raise ValueError(f"{argument}: is a view that torch negates when it is read, "
                             f"accepted: {argument}.resolve_neg()")
    assume_stored = lib.load("assume_values_are_stored")
    args = _all_borrowed(name, args, as_tensor)
    assume_stored.eager(True)
    try:
        return function(*args)
    finally:
        assume_stored.eager(False)


def _with_argument(name, args, error):
    """`error`, which says what is wrong with the type of an argument, with that one's name."""
    from .signatures import argument_names

    text = str(error)
    wrong_place = re.match(r"Mismatched type on argument #(\d+) .*Expected `(.*?)` but got", text)
    names = argument_names(name)
    if wrong_place and int(wrong_place[1]) < len(names):
        place = int(wrong_place[1])
        return TypeError(f"{names[place]}: is a {type(args[place]).__qualname__}, "
                         f"accepted: {_ACCEPTED.get(wrong_place[2], wrong_place[2])}")
    if text.startswith("a tensor"):
        accepts = lib.load("check_argument").function
        for argument, value in zip(names, args):
            try:
                accepts(value)
            except ValueError:
                words = text.removeprefix("a tensor").removeprefix("'s").lstrip()
                return ValueError(f"{argument}: {words}")
            except (TypeError, BufferError):  # no tensor, or one that is right
                continue
    return error


#: What a type of the binding is to a caller.
_ACCEPTED = {"Tensor": "a tensor", "int": "a whole number", "float": "a number", "bool": "a bool"}


def _all_borrowed(name, args, as_tensor):
    from .signatures import written_arguments

    numpy = sys.modules.get("numpy")
    for place, argument in written_arguments(name).items():
        if numpy is not None and isinstance(args[place], numpy.ndarray):
            if not args[place].flags.writeable:
                raise ValueError(f"{argument}: the array is read-only, and is written to")
    return [_borrowed(arg, as_tensor) for arg in args]


def _borrowed(arg, as_tensor):
    """A tensor over the memory of a NumPy array that is read-only or of a dtype of ml_dtypes."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(arg, numpy.ndarray):
        return arg
    if not arg.dtype.isnative:
        raise ValueError(f"an array is {arg.dtype.str}, expected the machine's own byte order")
    itemsize = arg.dtype.itemsize
    if any(stride % itemsize for stride in arg.strides):
        raise ValueError(f"an array has strides of {arg.strides} bytes, "
                         f"expected multiples of the item size {itemsize}")
    strides = [stride // itemsize for stride in arg.strides]
    return as_tensor(arg.ctypes.data, arg.dtype.name, list(arg.shape), strides)


class _Library:
    """Attributes are functions of the binding, looked up when first used."""

    def __init__(self):
        self._lock = threading.Lock()
        self._module = None

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if _compiling.ask():  # nothing is loaded while torch.compile traces
            return lambda *args: _as_torch_op(name, args)
        return self.load(name)

    def load(self, name):
        """The function, loaded also while torch.compile traces; its attribute ``eager`` never asks
        whether that is so."""
        if name in self.__dict__:
            return self.__dict__[name]
        with self._lock:
            if self._module is None:
                self._module = _load()
            as_tensor = self._module.get_function("borrowed_tensor")
        function = _exported(name, self._module.get_function(name), as_tensor)
        setattr(self, name, function)
        return function


lib = _Library()
