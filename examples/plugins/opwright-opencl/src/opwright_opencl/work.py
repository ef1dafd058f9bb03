"""The work of an operator, which is planned in ``prepare``, bound to memory, and then enqueued."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from opwright.kernel import PrepareContext
from opwright.op import Meta, item_size, numel
from opwright_opencl.device import DEVICES, DeviceArray, OpenClDevice

if TYPE_CHECKING:
    import pyopencl as cl

NO_FAULT = 0xFFFFFFFF
"""The fault value of `Labels` if every class id is valid."""


SMALL_GROUP = 32
"""The size of work-groups with little work; GPUs run at least this many items concurrently."""


class Slot(NamedTuple):
    """An argument: the buffer of an operator slot, NULL if it is absent or empty."""

    number: int


class Local(NamedTuple):
    """An argument: local memory of a work-group, with room for `elements`."""

    elements: int


class Scratch(NamedTuple):
    """An argument: memory used between two launches, with room for `elements`."""

    elements: int


class Fault:
    """An argument: the address of the first line with an invalid class id."""


class Launch(NamedTuple):
    """One kernel with its arguments in order and the number of work-items."""

    name: str
    items: tuple[int, ...]
    group: tuple[int, ...]
    arguments: tuple[Any, ...]


class Labels(NamedTuple):
    """The class ids that a launch checks: slot, dtype, number of classes, prefix of the error."""

    slot: Slot
    dtype: str
    classes: int
    who: str


class Work:
    """The launches of the kernel of one operator; ``prepare`` returns it.

    Parameters
    ----------
    ctx : PrepareContext
        Attributes and metas.
    dtype : str
        The dtype of the computed elements.

    Attributes
    ----------
    device : OpenClDevice
    """

    def __init__(self, ctx: PrepareContext, dtype: str) -> None:
        self.device: OpenClDevice = DEVICES.open(ctx.device_number)
        if dtype == "float64" and not self.device.has_double:
            ctx.refuse(f"{self.device.label} does not compute in float64")
        self._dtype = dtype
        self._slots = [*ctx.inputs, *ctx.outputs]
        self._launches: list[Launch] = []
        self._moves: list[tuple[Slot, Slot, int]] = []
        self.labels: Labels | None = None

    # -- While it is prepared -------------------------------------------------------------------

    def slot(self, name: str) -> Slot:
        """Return the argument of a slot."""
        return Slot(self._slots.index(name))

    def number(self, value: float) -> np.generic:
        """Return a number as a kernel argument of the element type."""
        number: np.generic = np.dtype(self._dtype).type(value)
        return number

    def launch_each(self, name: str, count: int, *arguments: object) -> None:
        """Add a launch of one work-item per element; `count` is the first argument."""
        group = self.device.largest_group
        self.launch(name, (-(-count // group),), (group,), np.uint64(count), *arguments)

    def launch(
        self, name: str, groups: tuple[int, ...], group: tuple[int, ...], *arguments: object
    ) -> None:
        """Add a launch of work-groups of this shape, if there are any."""
        if 0 not in groups:
            items = tuple(n * size for n, size in zip(groups, group, strict=True))
            self._launches.append(Launch(name, items, group, arguments))

    def move(self, source: str, target: str, meta: Meta) -> None:
        """Add a copy from one slot to another, which does nothing if they share memory."""
        size_bytes = count_of(meta) * item_size(meta.dtype)
        if size_bytes:
            self._moves.append((self.slot(source), self.slot(target), size_bytes))

    # -- While a plan runs ----------------------------------------------------------------------

    def bind(self, *slots: Any) -> Callable[[], None]:
        """Return a function that enqueues all launches on this memory."""
        return _Bound(self.device, self._dtype, slots).fill(
            self._moves, self._launches, self.labels
        )


class _Bound:
    """The launches of one operator in one instance of a plan.

    Its OpenCL kernels store their arguments, so runs do not set them, and an instance never runs in
    two threads concurrently. The instance keeps all memory alive, since an OpenCL kernel does not.
    """

    def __init__(self, device: OpenClDevice, dtype: str, slots: tuple[Any, ...]) -> None:
        self._device = device
        self._dtype = dtype
        self._slots = slots
        self._scratch: dict[int, cl.Buffer] = {}
        self._fault: cl.Buffer | None = None
        self._moves: list[tuple[cl.Buffer, cl.Buffer, int]] = []
        self._launches: list[tuple[cl.Kernel, tuple[int, ...], tuple[int, ...]]] = []
        self._labels: Labels | None = None

    def fill(
        self, moves: list[tuple[Slot, Slot, int]], launches: list[Launch], labels: Labels | None
    ) -> Callable[[], None]:
        """Create all kernels, and return a function that enqueues them."""
        for source, target, size_bytes in moves:
            here, there = self._buffer(source), self._buffer(target)
            if here is not None and there is not None and here is not there:
                self._moves.append((there, here, size_bytes))
        for launch in launches:
            kernel = self._device.make_kernel(launch.name, self._dtype)
            kernel.set_args(*map(self._argument, launch.arguments))
            self._launches.append((kernel, launch.items, launch.group))
        self._labels = labels
        return self.run

    def run(self) -> None:
        """Enqueue the launches; wait only to check class ids."""
        self._device.check_process()
        cl, queue = self._device.opencl, self._device.queue
        for target, source, size_bytes in self._moves:
            cl.enqueue_copy(queue, target, source, byte_count=size_bytes)
        for kernel, items, group in self._launches:
            cl.enqueue_nd_range_kernel(queue, kernel, items, group)
        if self._fault is not None and self._labels is not None:
            self._check_labels(self._labels, self._fault)

    def _buffer(self, slot: Slot) -> cl.Buffer | None:
        """Return the buffer of a slot, or a NumPy array if the slot's array is empty."""
        array = self._slots[slot.number]
        return array.buffer if isinstance(array, DeviceArray) else None

    def _argument(self, argument: Any) -> Any:
        item_bytes = np.dtype(self._dtype).itemsize
        if isinstance(argument, Slot):
            return self._buffer(argument)
        if isinstance(argument, Local):
            return self._device.opencl.LocalMemory(argument.elements * item_bytes)
        if isinstance(argument, Scratch):
            if argument.elements not in self._scratch:
                size_bytes = argument.elements * item_bytes
                self._scratch[argument.elements] = self._device.make_buffer(size_bytes)
            return self._scratch[argument.elements]
        if isinstance(argument, Fault):
            self._fault = self._device.make_buffer(4)
            self._forget_fault(self._fault)
            return self._fault
        return argument

    def _forget_fault(self, fault: cl.Buffer) -> None:
        queue = self._device.queue
        self._device.opencl.enqueue_copy(queue, fault, np.array([NO_FAULT], np.uint32))

    def _check_labels(self, labels: Labels, fault: cl.Buffer) -> None:
        enqueue_copy, queue = self._device.opencl.enqueue_copy, self._device.queue
        line = np.empty(1, np.uint32)
        enqueue_copy(queue, line, fault)
        if line[0] == NO_FAULT:
            return
        self._forget_fault(fault)
        wrong = np.empty(1, labels.dtype)
        place = int(line[0]) * wrong.itemsize
        enqueue_copy(queue, wrong, self._buffer(labels.slot), src_offset=place)
        raise ValueError(f"{labels.who}: label must be in [0, {labels.classes}), got {wrong[0]}")


class Kernel:
    """A kernel to register; `write` fills a `Work` from the context of ``prepare``.

    Parameters
    ----------
    write : callable
        A function of a PrepareContext and a Work that calls ``ctx.refuse(reason)`` for unsupported
        arguments.
    """

    def __init__(self, write: Callable[[PrepareContext, Work], None]) -> None:
        self._write = write

    def prepare(self, ctx: PrepareContext) -> Work:
        """Return the launches of the operator."""
        work = Work(ctx, first_output(ctx).dtype)
        self._write(ctx, work)
        return work


def first_output(ctx: PrepareContext) -> Meta:
    """Return the meta of the first requested output."""
    return next(metas[0] for metas in ctx.outputs.values() if metas)


def count_of(meta: Meta) -> int:
    """Return the number of elements."""
    return numel(meta.shape)


def group_for(count: int, largest: int) -> int:
    """Return one of two work-group sizes for `count` elements; drivers compile for each size."""
    return min(SMALL_GROUP, largest) if count <= SMALL_GROUP else largest
