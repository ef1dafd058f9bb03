"""Memory that two processes map: a file without a name, which lives as long as either of them."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from opwright.describe.dtypes import dtype_to_numpy

ALIGNMENT: Final = 64
"""Of each array, as kernels are used to."""


class SharedMemory:
    """Arrays one behind the other in memory that grows.

    Parameters
    ----------
    descriptor : int, optional
        Of the file, as the other process has handed it over; by default a new one.

    Attributes
    ----------
    descriptor : int
    """

    def __init__(self, descriptor: int | None = None) -> None:
        new = os.memfd_create("opwright-isolation") if descriptor is None else descriptor
        self.descriptor: int = new
        self._map: mmap.mmap | None = None
        self._end = 0

    def reset(self, end: int = 0) -> None:
        """Let the next array lie here: what lies behind is given up."""
        self._end = end

    @property
    def end(self) -> int:
        """Where the next array would lie."""
        return self._end

    def add(self, shape: Sequence[int], dtype: str) -> int:
        """Make room for an array, and return where it lies."""
        offset = self._end
        size = int(np.prod(shape, dtype=np.int64)) * dtype_to_numpy(dtype).itemsize
        self._end = offset + -(-size // ALIGNMENT) * ALIGNMENT
        if self._end > os.fstat(self.descriptor).st_size:
            os.ftruncate(self.descriptor, 2 * self._end)  # seldom, whatever grows
        return offset

    def view(self, offset: int, shape: Sequence[int], dtype: str) -> NDArray[Any]:
        """Return the array that lies there; it is to be dropped before the memory grows."""
        numpy_dtype = dtype_to_numpy(dtype)
        count = int(np.prod(shape, dtype=np.int64))
        if count == 0:
            return np.empty(shape, numpy_dtype)
        size = os.fstat(self.descriptor).st_size
        if self._map is None or len(self._map) < size:
            self._map = mmap.mmap(self.descriptor, size)
        return np.frombuffer(self._map, numpy_dtype, count, offset).reshape(shape)

    def close(self) -> None:
        """Give the file up; what views are left keep their memory."""
        self._map = None
        os.close(self.descriptor)
