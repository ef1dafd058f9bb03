"""The launcher library, which Python calls when plans are created, but not when they run."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from opwright.errors import DeviceNotFoundError, KernelError, PluginError

LIBRARY: Final = "opwright_cuda/launcher.so"
"""The path of the library in the package, for hooks."""

MAX_PARAMETERS: Final = 512
"""Maximum number of parameters of one kernel, so that pointers fit into the 4 kB of a launch."""

_MESSAGE_BYTES: Final = 2048


class GpuInfo(NamedTuple):
    """Properties of a GPU, available before a context is created.

    Attributes
    ----------
    name : str
        NVIDIA's name.
    capability : (int, int)
        Compute capability, major and minor.
    multiprocessors : int
        Number of multiprocessors.
    shared_bytes : int
        Maximum shared memory of one block.
    """

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    shared_bytes: int

    @property
    def arch(self) -> str:
        """The target architecture of its kernels: ``"sm_90"``."""
        return f"sm_{self.capability[0]}{self.capability[1]}"


class _Info(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_int32),
        ("minor", ctypes.c_int32),
        ("multiprocessors", ctypes.c_int32),
        ("shared_bytes", ctypes.c_int32),
        ("name", ctypes.c_char * 256),
    )


@cache
def library() -> ctypes.CDLL:
    """Return the launcher, opened at the first call."""
    # An editable installation stores compiled files in a separate folder.
    package = find_spec("opwright_cuda")
    for folder in (package and package.submodule_search_locations) or ():
        path = Path(folder) / Path(LIBRARY).name
        if path.exists():
            return ctypes.CDLL(str(path))
    raise PluginError(
        f"opwright-cuda: the package must contain {LIBRARY}, got no such file; "
        "pip install --force-reinstall --no-deps opwright-cuda"
    )


def _call(error: type[Exception], function: str, *args: Any) -> None:
    """Call a function whose last parameter is a message buffer; raise the message on failure."""
    message = ctypes.create_string_buffer(_MESSAGE_BYTES)
    status = getattr(library(), function)(*args, message, ctypes.c_uint64(_MESSAGE_BYTES))
    if status != 0:
        raise error(message.value.decode(errors="replace"))


def count_gpus() -> int:
    """Return the number of visible GPUs.

    Raises
    ------
    DeviceNotFoundError
        If the driver is missing or too old.
    """
    n = ctypes.c_int32()
    _call(DeviceNotFoundError, "opwright_cuda_count", ctypes.byref(n))
    return n.value


@cache
def describe_gpu(number: int) -> GpuInfo:
    """Return the properties of a GPU.

    Raises
    ------
    DeviceNotFoundError
        If there is no driver, or no GPU with this index.
    """
    info = _Info()
    _call(DeviceNotFoundError, "opwright_cuda_describe", number, ctypes.byref(info))
    capability = (info.major, info.minor)
    name = info.name.decode(errors="replace")
    return GpuInfo(name, capability, info.multiprocessors, info.shared_bytes)


def load_kernels(image: bytes, names: Sequence[str]) -> list[int]:
    """Load compiled code for the lifetime of the process; return its kernel handles.

    Raises
    ------
    KernelError
        If the driver rejects the image.
    """
    handles = (ctypes.c_uint64 * len(names))()
    texts = (ctypes.c_char_p * len(names))(*(name.encode() for name in names))
    n_names = ctypes.c_uint64(len(names))
    _call(KernelError, "opwright_cuda_load", ctypes.c_char_p(image), texts, n_names, handles)
    return list(handles)


def parameter_sizes(kernel: int) -> tuple[int, ...]:
    """Return the size in bytes of each parameter of a kernel.

    Raises
    ------
    KernelError
        If the driver does not know the kernel.
    """
    sizes = (ctypes.c_uint64 * MAX_PARAMETERS)()
    n = ctypes.c_uint64(MAX_PARAMETERS)
    arguments = (ctypes.c_uint64(kernel), sizes, ctypes.byref(n))
    _call(KernelError, "opwright_cuda_parameter_sizes", *arguments)
    return tuple(sizes[: n.value])


def allow_shared(kernel: int, number: int, n_bytes: int) -> None:
    """Allow the blocks of a kernel to use more shared memory than the default of 48 kB."""
    _call(KernelError, "opwright_cuda_allow_shared", ctypes.c_uint64(kernel), number, n_bytes)


def find_gpu(pointer: int) -> int | None:
    """Return the index of the GPU that owns an address, or None if no GPU does.

    Raises
    ------
    KernelError
        If the driver fails to look up the address.
    """
    number = ctypes.c_int32()
    _call(KernelError, "opwright_cuda_find_gpu", ctypes.c_uint64(pointer), ctypes.byref(number))
    return None if number.value < 0 else number.value


def register_fault(text: str) -> int:
    """Return the number with which kernels report a fault; ``{value}`` is the reported value."""
    number: int = library().opwright_cuda_register_fault(text.encode())
    return number


_blas_path: str | None = None
_cudnn_path: str | None = None


def set_blas_path(path: str) -> None:
    """Set the path of libcublasLt, before the first matrix product."""
    global _blas_path  # noqa: PLW0603 - the library stores it for the process, too
    library().opwright_cuda_set_blas_path(path.encode())
    _blas_path = path


def has_blas_path() -> bool:
    """Return whether the path of libcublasLt is set."""
    return _blas_path is not None


def set_cudnn_path(path: str) -> None:
    """Set the path of libcudnn, before its first use."""
    global _cudnn_path  # noqa: PLW0603 - the library stores it for the process, too
    library().opwright_cuda_set_cudnn_path(path.encode())
    _cudnn_path = path


def find_cudnn_path() -> str | None:
    """Return the path of libcudnn, or None if it is not set."""
    return _cudnn_path


def cudnn_version() -> int:
    """Load cuDNN; return its version, such as 91200 for 9.12.

    Raises
    ------
    PluginError
        If it is missing, too old, or built for a different CUDA version.
    """
    version = ctypes.c_uint64()
    _call(PluginError, "opwright_cuda_cudnn_version", ctypes.byref(version))
    return version.value


def choose_engine(record: Sequence[int], properties: str) -> tuple[int, int, int]:
    """Return the index, workspace bytes and notes of the engine that cuDNN chooses for a GPU.

    Parameters
    ----------
    record : sequence of int
        An operation graph; see native/cudnn/cudnn.h.
    properties : str
        The GPU, as cuDNN serializes it.

    Raises
    ------
    KernelError
        If cuDNN has no engine, or cannot be loaded.
    """
    numbers = (ctypes.c_int64 * len(record))(*record)
    engine = (ctypes.c_int64 * 3)()
    arguments = (numbers, ctypes.c_uint64(len(record)), properties.encode(), engine)
    _call(KernelError, "opwright_cuda_choose_engine", *arguments)
    return engine[0], engine[1], engine[2]
