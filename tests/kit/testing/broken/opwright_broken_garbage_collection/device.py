"""A device that counts the arrays on each block, under a lock."""

import ctypes
import threading

import numpy as np


class Array:
    """An array of the device, with one reference to its memory block."""

    def __init__(self, device, handle):
        self.device, self.handle = device, handle

    def __del__(self):
        with self.device.lock:
            self.device.users[self.handle] -= 1


class Device:
    """A device whose addresses are block numbers."""

    name = "broken_garbage_collection"
    dlpack_code = 12
    addressable = False

    def __init__(self):
        self.lock = threading.Lock()
        self.blocks, self.users = {}, {}

    def allocate(self, size):
        with self.lock:
            handle = len(self.users) + 1
            self.blocks[handle] = np.empty(size, np.uint8)
            self.users[handle] = 0
            return handle

    def free(self, handle):
        with self.lock:
            del self.blocks[handle]

    def copy(self, dst, dst_is_host, src, src_is_host, size):
        target = dst if dst_is_host else self.blocks[dst].ctypes.data
        source = src if src_is_host else self.blocks[src].ctypes.data
        ctypes.memmove(target, source, size)

    def synchronize(self):
        pass

    def view(self, handle, shape, dtype):
        with self.lock:
            self.users[handle] += 1
        return Array(self, handle)


DEVICE = Device()
