"""The device ``opencl``, with numbered buffers, an in-order queue, and a program per dtype."""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from opwright.errors import KernelError
from opwright_opencl.platforms import get_device, load_pyopencl

if TYPE_CHECKING:
    import pyopencl as cl

OPENCL = 4  # DLPack's kDLOpenCL

SOURCES = ("formulas", "elementwise", "reduction", "softmax", "matmul")
CTYPES = {"float32": "float", "float64": "double"}
LARGEST_GROUP = 256
"""The maximum work-group size; larger groups are not faster, and some devices refuse them."""

ROWS, WIDTH = 4, 4
"""The rows and columns of a product that one work-item computes."""


class DeviceArray(NamedTuple):
    """A kernel argument on this device: a contiguous OpenCL buffer of at least this shape."""

    buffer: cl.Buffer
    shape: tuple[int, ...]
    dtype: str


class OpenClDevice:
    """One OpenCL device, as `opwright.device.PythonDevice` describes it.

    All work goes to one in-order queue, so only copies to and from the host have to wait. A
    handle is a number that is never reused, because opwright assumes that the same handle means the
    same memory.

    Parameters
    ----------
    device : pyopencl.Device
        The device that runs the work.

    Attributes
    ----------
    opencl : module
        pyopencl.
    label : str
        Name of the hardware.
    queue : pyopencl.CommandQueue
    has_double : bool
        Whether the device supports float64.
    largest_group : int
        The number of work-items in a work-group, a power of two.
    tile : int
        The rows and columns of a product that one work-group computes; 0 if no tile fits.
    """

    name = "opencl"
    dlpack_code = OPENCL
    addressable = False

    def __init__(self, device: cl.Device) -> None:
        self.opencl = load_pyopencl()
        self._context = self.opencl.Context([device])
        self.label = device.name.strip()
        self.queue = self.opencl.CommandQueue(self._context, device)
        self.compute_units = device.max_compute_units
        self.has_double = bool(device.double_fp_config)
        self.largest_group = _power_below(min(LARGEST_GROUP, device.max_work_group_size))
        self.tile = _tile(self.largest_group, device.local_mem_size)
        self._largest_bytes = device.max_mem_alloc_size
        self._memory_bytes = device.global_mem_size
        self._used_bytes = 0
        self._buffers: dict[int, cl.Buffer] = {}
        self._handles = itertools.count(1)
        self._programs: dict[str, cl.Program] = {}
        self._lock = threading.Lock()
        self._process = os.getpid()

    # -- the interface of opwright --------------------------------------------------------------

    def allocate(self, size: int, /) -> int:
        """Return the handle of a new buffer.

        Raises
        ------
        MemoryError
            If the buffer is larger than the device allows, or than its free memory.
        """
        buffer = self.make_buffer(size)
        with self._lock:
            handle = next(self._handles)
            self._buffers[handle] = buffer
            self._used_bytes += buffer.size
        return handle

    def free(self, handle: int, /) -> None:
        """Release a buffer; OpenCL keeps its memory until all enqueued work is done."""
        with self._lock:
            self._used_bytes -= self._buffers.pop(handle).size

    def copy(self, dst: int, dst_is_host: bool, src: int, src_is_host: bool, size: int, /) -> None:
        """Copy bytes after all enqueued work; the call waits if one side is on the host."""
        self.check_process()
        enqueue_copy = self.opencl.enqueue_copy
        if dst_is_host:
            enqueue_copy(self.queue, _host(dst, size), self._buffers[src])
        elif src_is_host:
            enqueue_copy(self.queue, self._buffers[dst], _host(src, size))
        else:
            source, target = self._buffers[src], self._buffers[dst]
            enqueue_copy(self.queue, target, source, byte_count=size)

    def synchronize(self) -> None:
        """Wait until all enqueued work is done."""
        self.check_process()
        self.queue.finish()

    def view(self, handle: int, shape: tuple[int, ...], dtype: str, /) -> DeviceArray:
        """Return the arguments of kernels."""
        return DeviceArray(self._buffers[handle], shape, dtype)

    # -- the interface of kernels ---------------------------------------------------------------

    def check_process(self) -> None:
        """Raise KernelError in a forked child, in which the driver threads do not exist."""
        if os.getpid() != self._process:
            raise KernelError(
                "opencl: a device must be used in the process that opened it, got a child of fork; "
                'start the child otherwise, as multiprocessing.get_context("spawn") does'
            )

    def make_buffer(self, size_bytes: int) -> cl.Buffer:
        """Allocate a buffer that is freed with the returned object; see `allocate` for errors."""
        self.check_process()
        if size_bytes > self._largest_bytes:
            raise MemoryError(
                f"{self.label} gives at most {self._largest_bytes} bytes at once, "
                f"got a request for {size_bytes}"
            )
        # Drivers allocate more memory than exists, and then fail or swap when it is written.
        if self._used_bytes + size_bytes > self._memory_bytes:
            raise MemoryError(
                f"{self.label} has {self._memory_bytes} bytes, {self._used_bytes} of them in use, "
                f"got a request for {size_bytes}"
            )
        try:
            flags = self.opencl.mem_flags.READ_WRITE
            made: cl.Buffer = self.opencl.Buffer(self._context, flags, size=max(size_bytes, 1))
        except self.opencl.MemoryError as error:
            raise MemoryError(f"{self.label}: {error}") from error
        return made

    def make_kernel(self, name: str, dtype: str) -> cl.Kernel:
        """Return a kernel for elements of `dtype`; its program is built at first use.

        Each call returns a new object, since setting arguments and enqueueing are separate calls.
        """
        with self._lock:
            program = self._programs.get(dtype)
            if program is None:
                program = self._programs[dtype] = self._build(dtype)
        kernel: cl.Kernel = self.opencl.Kernel(program, name)
        return kernel

    def _build(self, dtype: str) -> cl.Program:
        folder = resources.files("opwright_opencl") / "cl"
        texts = [(folder / f"{name}.cl").read_text(encoding="utf-8") for name in SOURCES]
        options = ["-cl-std=CL1.2", f"-DT={CTYPES[dtype]}", f"-DTILE={self.tile or ROWS}"]
        options += [f"-DROWS={ROWS}", f"-DWIDTH={WIDTH}"]
        program: cl.Program = self.opencl.Program(self._context, "\n".join(texts))
        try:
            program.build(options)
        except self.opencl.Error as error:
            raise KernelError(
                f"opencl: kernels must compile for {dtype}, got an error on {self.label}; "
                f"report this:\n{error}"
            ) from error
        return program


class OpenClDevices:
    """All OpenCL devices, opened by number; see `opwright.device.PythonDevices`."""

    dlpack_code = OPENCL

    def __init__(self) -> None:
        self._opened: dict[int, OpenClDevice] = {}
        self._lock = threading.Lock()

    def open(self, number: int, /) -> OpenClDevice:
        """Return the device with this number, which is created at first use.

        Raises
        ------
        DeviceNotFoundError
            If there is no such device, or a requirement of OpenCL is missing.
        """
        with self._lock:
            device = self._opened.get(number)
            if device is None:
                device = self._opened[number] = OpenClDevice(get_device(number))
        return device


DEVICES = OpenClDevices()
"""The opened devices of the process, to which the plugin refers."""


def _host(address: int, size: int) -> ctypes.Array[ctypes.c_uint8]:
    return (ctypes.c_uint8 * size).from_address(address)


def _power_below(count: int) -> int:
    """Return the largest power of two that is at most `count`."""
    return 1 << (count.bit_length() - 1)


def _tile(largest_group: int, local_bytes: int) -> int:
    """Return the largest tile that fits a work-group with two doubles per element, or 0."""
    for tile in (32, 16, 8):
        items = (tile // ROWS) * (tile // WIDTH)
        if items <= largest_group and 2 * 8 * tile * (tile + WIDTH) <= local_bytes:
            return tile
    return 0
