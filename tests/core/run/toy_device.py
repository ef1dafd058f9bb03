"""A device whose memory has opaque handles without pointer arithmetic, as in OpenCL."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np


class ToyDevice:
    """A device that stores buffers in a dictionary and counts calls."""

    name = "toy"
    dlpack_code = 14  # extension devices have codes from 12 (kDLExtDev) on
    addressable = False

    def __init__(self):
        self.buffers = {}
        self.copied_bytes = 0
        self._numbers = itertools.count(7)

    def allocate(self, size):
        handle = next(self._numbers)
        self.buffers[handle] = np.zeros(size, np.uint8)
        return handle

    def free(self, handle):
        del self.buffers[handle]

    def copy(self, dst, dst_is_host, src, src_is_host, size):
        self.copied_bytes += size
        target = self._host(dst, size) if dst_is_host else self.buffers[dst]
        source = self._host(src, size) if src_is_host else self.buffers[src]
        target[:size] = source[:size]

    def synchronize(self):
        pass

    def view(self, handle, shape, dtype):
        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return self.buffers[handle][:count].view(dtype).reshape(shape)

    @staticmethod
    def _host(address, size):
        return np.frombuffer((ctypes.c_uint8 * size).from_address(address), np.uint8)
