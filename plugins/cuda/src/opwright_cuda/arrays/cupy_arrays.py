"""Wraps GPU memory in CuPy arrays for Python kernels, and in interfaces for other libraries."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Final

from opwright.device import ArrayPlace
from opwright.errors import MissingRequirementError
from opwright_cuda.arrays.array_interface import INTERFACE, describe, locate


@cache
def _cupy() -> Any:
    try:
        # ml_dtypes must be imported before CuPy builds its dtype tables; otherwise, they lack
        # bfloat16.
        import cupy
        import ml_dtypes  # noqa: F401
    # CuPy creates its cache folder when it is imported; this may fail as well.
    except (ImportError, OSError) as error:
        raise MissingRequirementError(
            f"CUDA: arrays on a GPU require CuPy and ml_dtypes, got {type(error).__name__}: "
            f"{error}; pip install cupy-cuda13x ml_dtypes"
        ) from error
    return cupy


class CudaArrays:
    """Creates CuPy arrays over memory of the runtime; see `opwright.device.DeviceArrays`.

    Only `view` and `stream` require CuPy.
    """

    interface: Final = INTERFACE

    def view(self, pointer: int, shape: tuple[int, ...], dtype: str, device_id: int) -> Any:
        """Return an array over memory owned by the runtime."""
        cupy = _cupy()
        kind = cupy.dtype(dtype)
        n_bytes = max(1, kind.itemsize)
        for dim in shape:
            n_bytes *= max(1, dim)
        memory = cupy.cuda.UnownedMemory(pointer, n_bytes, self, device_id)
        return cupy.ndarray(shape, kind, cupy.cuda.MemoryPointer(memory, 0))

    def stream(self, pointer: int, device_id: int) -> AbstractContextManager[Any]:
        """Return a context manager that makes a runtime stream the current one in this thread."""
        stream: AbstractContextManager[Any] = _cupy().cuda.ExternalStream(pointer, device_id)
        return stream

    def locate(self, description: Any) -> ArrayPlace:
        """Return the memory of another library's array."""
        return locate(description)

    def describe(self, pointer: int, shape: tuple[int, ...], dtype: str, _: int) -> dict[str, Any]:
        """Describe a tensor for other libraries."""
        return describe(pointer, shape, dtype)


ARRAYS = CudaArrays()
"""The object registered by the hook."""
