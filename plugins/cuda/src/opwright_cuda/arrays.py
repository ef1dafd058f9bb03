"""GPU memory as CuPy arrays: what kernels written in Python get, and the stream that they use."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from opwright.errors import PluginError


@cache
def _cupy() -> Any:
    try:
        # Before CuPy makes its tables of dtypes: afterwards it would not know bfloat16.
        import cupy
        import ml_dtypes  # noqa: F401
    # CuPy makes its cache folder when it is imported, which may fail as well.
    except (ImportError, OSError) as error:
        raise PluginError(
            f"CUDA: arrays on a GPU are CuPy's, got {type(error).__name__}: {error}; "
            "pip install cupy-cuda13x ml_dtypes"
        ) from error
    return cupy


class CupyArrays:
    """Makes CuPy arrays over memory of the runtime; see `opwright.devices.DeviceArrays`."""

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


ARRAYS = CupyArrays()
"""What the hook names."""
