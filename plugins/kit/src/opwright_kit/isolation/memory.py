"""Memory shared by two processes: an unnamed file that exists as long as one of them runs."""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from opwright.op import dtype_to_numpy

ALIGNMENT: Final = 64
"""The alignment of each array in bytes, as for other kernels."""


class SharedMemory:
    """Consecutive arrays in memory that grows.

    ``descriptor`` is the file descriptor received from the other process, by default the descriptor
    of a new file; ``end`` is the offset of the next array, in bytes.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        new = os.memfd_create("opwright-isolation") if descriptor is None else descriptor
        self.descriptor: int = new
        self.end = 0
        self._map: mmap.mmap | None = None

    def add(self, shape: Sequence[int], dtype: str) -> int:
        """Reserve memory for an array, and return its offset."""
        offset = self.end
        size = math.prod(shape) * dtype_to_numpy(dtype).itemsize
        self.end = offset + -(-size // ALIGNMENT) * ALIGNMENT
        if self.end > os.fstat(self.descriptor).st_size:
            os.ftruncate(self.descriptor, 2 * self.end)  # twice so that it rarely grows
        return offset

    def view(self, offset: int, shape: Sequence[int], dtype: str) -> NDArray[Any]:
        """Return the array at an offset; the caller must drop it before the memory grows."""
        numpy_dtype = dtype_to_numpy(dtype)
        count = math.prod(shape)
        if count == 0:
            return np.empty(shape, numpy_dtype)
        size = os.fstat(self.descriptor).st_size
        if self._map is None or len(self._map) < size:
            self._map = mmap.mmap(self.descriptor, size)
        return np.frombuffer(self._map, numpy_dtype, count, offset).reshape(shape)

    def close(self) -> None:
        """Close the file; arrays that still exist keep their memory."""
        self._map = None
        os.close(self.descriptor)
