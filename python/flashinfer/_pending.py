# SPDX-License-Identifier: Apache-2.0
"""Names whose operators are still to come: they exist, and say so when they are called."""


def not_yet(name, why="is not implemented yet"):
    """Raises NotImplementedError for `name`."""
    raise NotImplementedError(f"{name} {why}")


def pending(name, why="is not implemented yet"):
    """A function called `name` that raises NotImplementedError."""

    def function(*args, **kwargs):
        raise NotImplementedError(f"{name} {why}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Raises NotImplementedError: {name} {why}."
    return function


def pending_class(name, why="is not implemented yet"):
    """A class called `name` that cannot be made."""

    def init(self, *args, **kwargs):
        raise NotImplementedError(f"{name} {why}")

    return type(name, (), {"__init__": init,
                           "__doc__": f"Raises NotImplementedError: {name} {why}."})


def refuse(name, **arguments):
    """Raises NotImplementedError when an argument that is not implemented was given."""
    for argument, value in arguments.items():
        if value is not None and value is not False:
            raise NotImplementedError(f"{name}: {argument}={value!r} is not implemented yet")


def pending_names(module, functions="", classes=""):
    """Puts names that raise NotImplementedError, words of two strings, into a module's globals."""
    for name in functions.split():
        module[name] = pending(name)
    for name in classes.split():
        module[name] = pending_class(name)
