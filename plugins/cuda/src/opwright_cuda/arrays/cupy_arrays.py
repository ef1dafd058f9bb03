"""GPU memory as CuPy's arrays, for kernels in Python, and as descriptions for other libraries."""

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
        # Before CuPy makes its tables of dtypes: afterwards it would not know bfloat16.
        import cupy
        import ml_dtypes  # noqa: F401
    # CuPy makes its cache folder when it is imported, which may fail as well.
    except (ImportError, OSError) as error:
        raise MissingRequirementError(
            f"CUDA: arrays on a GPU are CuPy's, got {type(error).__name__}: {error}; "
            "pip install cupy-cuda13x ml_dtypes"
        ) from error
    return cupy


class CudaArrays:
    """Makes CuPy arrays over memory of the runtime; see `opwright.device.DeviceArrays`.

    For all but `view` and `stream` CuPy is not needed.
    """

    interface: Final = INTERFACE

    def view(self, pointer: int, shape: tuple[int, ...], dtype: str, device_id: int) -> Any:
        """Return an array over memory that stays the runtime's."""
        cupy = _cupy()
        kind = cupy.dtype(dtype)
        n_bytes = max(1, kind.itemsize)
        for dim in shape:
            n_bytes *= max(1, dim)
        memory = cupy.cuda.UnownedMemory(pointer, n_bytes, self, device_id)
        return cupy.ndarray(shape, kind, cupy.cuda.MemoryPointer(memory, 0))

    def stream(self, pointer: int, device_id: int) -> AbstractContextManager[Any]:
        """Return what makes a stream of the runtime the current one of this thread."""
        stream: AbstractContextManager[Any] = _cupy().cuda.ExternalStream(pointer, device_id)
        return stream

    def locate(self, description: Any) -> ArrayPlace:
        """Return where an array of another library lies."""
        return locate(description)

    def describe(self, pointer: int, shape: tuple[int, ...], dtype: str, _: int) -> dict[str, Any]:
        """Return the description of a tensor for other libraries."""
        return describe(pointer, shape, dtype)


ARRAYS = CudaArrays()
"""What the hook names."""
