# SPDX-License-Identifier: Apache-2.0
"""The classes of errors, beside ValueError (a wrong argument), MemoryError and OSError."""


class BackendSupportedError(NotImplementedError):
    """Right in itself, but no backend here takes it; the message lists each with its reason."""


class GPUArchitectureError(BackendSupportedError):
    """The operator exists, but not for the GPU that holds the tensors."""


class LibraryError(RuntimeError):
    """A library that was asked for by name (cuDNN, cuBLAS, …) is not here."""


class DeviceError(RuntimeError):
    """A device or driver call failed, or device memory is out."""


class CompileError(RuntimeError):
    """A kernel did not compile; the message holds its spec and the compiler's words."""


class MissingJITCacheError(RuntimeError):
    """A kernel is in no cache or pack, and compiling is switched off.

    Attributes:
        spec: the ``JitSpec`` of the kernel, or None.
    """

    def __init__(self, message, spec=None):
        super().__init__(message)
        self.spec = spec
