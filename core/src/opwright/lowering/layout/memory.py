"""Assigns memory; values reuse the memory of inputs, or of values that are no longer needed.

A buffer that a plan owns gets a *slot*: the smallest sufficient free slot or, if there is none, the
largest free slot, which grows. On an addressable device the slots follow each other in one arena,
and large buffers are packed into one slot; on other devices each slot is a separate buffer, so a
device with opaque handles does not need pointer arithmetic. On a device without shared memory every
buffer is a slot of exactly its size, so a memory checker detects overruns.

The largest buffers are placed first, each at the lowest offset that is free during its
lifetime. For a training step the block is as large as the peak of live bytes, whereas separate
slots, each as large as its largest value, would take a third more.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from opwright import _runtime
from opwright.describe.control import Loop
from opwright.errors import OutOfMemoryError
from opwright.lowering.graph.graph import Graph
from opwright.lowering.graph.signature import MAX_BYTES, size_bytes
from opwright.lowering.graph.values import Buffer, LoweredOp, Value, copy_op, new_value

LEAST_SHARED_BYTES = 4096
"""Minimum size in bytes for which a Python kernel works in place."""

LEAST_PACKED_BYTES = 1 << 16
"""Smaller buffers share slots, as the search would cost more than it saves."""

MOST_PACKED = 512
"""Each buffer is compared with all before it, so further, smaller buffers get another block."""

_N_LISTED = 3


Slots = dict[str | None, list[int]]
"""The slot sizes in bytes on each device type; None is the plan's own device."""


def plan_memory(graph: Graph, device: _runtime.Device) -> Slots:
    """Assign a slot to every owned buffer, and make operators work in place; return slot sizes.

    `device` is the device of the plan.
    """
    _place_sinks(graph)
    if not device.shares_memory:
        for op in graph.ops:
            op.reuse = op.reuse if op.device else ()
    _separate_overwritten_inputs(graph)
    _drop_unread_stacks(graph)
    _find_lifetimes(graph)
    for position, op in enumerate(graph.ops):
        if op.reuse:
            _reuse_inputs(op, position)
    slots: Slots = {}
    for name, buffers in _owned_buffers(graph).items():
        owner = device if name is None else _runtime.host_device()
        slots[name] = _assign_slots(buffers, owner)
        if sum(slots[name]) > MAX_BYTES:
            raise _too_large(graph, sum(slots[name]), name)
    return slots


def _too_large(graph: Graph, total: int, device: str | None) -> OutOfMemoryError:
    """Return the error for a plan that is too large for an arena, with its largest values."""
    owned = {
        value.buffer.root(): value
        for op in graph.ops
        for value in op.writes()
        if value.buffer.root().is_owned and value.buffer.root().device == device
    }
    largest = sorted(owned.values(), key=lambda value: -value.buffer.size)[:_N_LISTED]
    listed = ", ".join(f"{v.name!r} {v.meta} of {v.buffer.size} bytes" for v in largest)
    return OutOfMemoryError(
        f"plan: its values must have less than 2**63 bytes together, got {total} bytes, the "
        f"largest in {listed}; make them smaller"
    )


def _place_sinks(graph: Graph) -> None:
    """Make the writer of a fetched value write it to its destination, or copy it there."""
    end = graph.ops[-1].index if graph.ops else 0
    for value, external in graph.sinks:
        buffer = value.buffer
        direct = (
            value.op is not None
            and buffer.is_owned
            and buffer.device == external.device
            and value not in graph.keeps
            and not value.is_constant
        )
        if direct:
            buffer.external = external
            graph.fetches.append(value)
            continue
        target = Value(value.name, value.meta, Buffer(size_bytes(value.meta), external))
        graph.ops.append(copy_op(value, target, end))
        graph.fetches.append(target)
    graph.sinks = []


def _drop_unread_stacks(graph: Graph) -> None:
    """Do not assign memory to stacked loop outputs if none of their elements are read."""
    loops = [(op, op.definition.control) for op in graph.ops if op.children]
    if not loops:
        return
    needed = {value.buffer.root() for value in (*graph.keeps, *graph.fetches)}
    needed.update(value.buffer.root() for op in graph.ops for value in op.data_reads())
    for op, control in loops:
        for slot, _ in control.stacks if isinstance(control, Loop) else ():
            for value in op.output(slot):
                if value.buffer.root() not in needed and value.buffer.is_owned:
                    value.buffer.size = 0
                    for child in op.children:
                        child.unread.add(value)


def _separate_overwritten_inputs(graph: Graph) -> None:
    """If an operator overwrites a persistable that it reads, write elsewhere and copy the result.

    Input and output share memory only for a declared alias or ``may_reuse`` of the kernel.
    """
    ops: list[LoweredOp] = []
    for op in graph.ops:
        ops.append(op)
        for values in op.outputs:
            if any(value.buffer.external for value in values) and not op.is_copy:
                ops += _separate_outputs(op)
                break
    graph.ops = ops


def _separate_outputs(op: LoweredOp) -> list[LoweredOp]:
    """Move outputs that must not overwrite inputs to other memory; return the copies to append."""
    copies: list[LoweredOp] = []
    read = {value.buffer for value in op.data_reads()}
    pairs = _in_place_pairs(op)
    outputs = list(op.outputs)
    for slot, values in enumerate(outputs):
        for k, value in enumerate(values):
            buffer = value.buffer
            if buffer.external is None or buffer not in read or (slot, buffer) in pairs:
                continue
            separate = new_value(value.name, value.meta, op)
            outputs[slot] = (*outputs[slot][:k], separate, *outputs[slot][k + 1 :])
            copies.append(copy_op(separate, value, op.index))
    op.outputs = tuple(outputs)
    return copies


def _in_place_pairs(op: LoweredOp) -> set[tuple[int, Buffer]]:
    """Return pairs of an output slot and the buffer of an input that it may overwrite."""
    pairs: set[tuple[int, Buffer]] = set()
    for out_slot, in_slot in op.definition.alias_slots:
        pairs.update((out_slot, value.buffer) for value in op.inputs[in_slot])
    for out_slot, in_slot in op.reuse:
        buffer = op.inputs[in_slot][0].buffer
        if _reads_once(op, buffer.root()):
            pairs.add((out_slot, buffer))
    return pairs


def _reads_once(op: LoweredOp, buffer: Buffer) -> bool:
    """Whether a buffer is read through only one slot, so that its operator may overwrite it."""
    reads = op.data_reads()
    return len(reads) == 1 or [value.buffer.root() for value in reads].count(buffer) == 1


def _find_lifetimes(graph: Graph) -> None:
    for position, op in enumerate(graph.ops):
        for values in op.data_slots() if op.definition.any_shape_only else op.inputs:
            for value in values:
                value.buffer.last = position
        for values in op.outputs:
            for value in values:
                buffer = value.buffer
                if buffer.first < 0:
                    buffer.first = position
                buffer.last = position
        if op.workspace is not None:
            op.workspace.first = op.workspace.last = position
    for value in graph.keeps:
        value.buffer.last = len(graph.ops)
    for op in graph.ops[: graph.n_constant]:  # later runs read them, too
        for value in op.writes():
            value.buffer.last = len(graph.ops)


def _reuse_inputs(op: LoweredOp, position: int) -> None:
    """Assign an output the buffer of an input that no later operator reads, if allowed."""
    taken: list[Buffer] = []
    for out_slot, in_slot in op.reuse:
        old, new = op.outputs[out_slot][0].buffer, op.inputs[in_slot][0].buffer.root()
        dies = new.last == position and new.is_owned and new not in taken and _reads_once(op, new)
        fresh = old.first == position and old.is_owned and old.shared_with is None
        # NumPy spends 0.3 µs on overlapping arrays, which is not worth it for a small array.
        is_small = old.size < LEAST_SHARED_BYTES and op.prepared.needs_gil
        if dies and fresh and old.device == new.device and not is_small:
            new.last = old.last
            old.shared_with = new
            taken.append(new)


def _owned_buffers(graph: Graph) -> dict[str | None, dict[Buffer, None]]:
    """Return the plan's buffers by device type, in the order of their first writes."""
    owned: dict[str | None, dict[Buffer, None]] = {}
    for op in graph.ops:
        for values in op.outputs:
            for value in values:
                buffer = value.buffer if value.buffer.shared_with is None else value.buffer.root()
                if buffer.external is None and not buffer.dynamic:
                    owned.setdefault(buffer.device, {})[buffer] = None
        if op.workspace is not None:
            owned.setdefault(op.workspace.device, {})[op.workspace] = None
    return owned


def _assign_slots(buffers: Iterable[Buffer], device: _runtime.Device) -> list[int]:
    """Assign each buffer a slot for the time from its first to its last operator."""
    slots: list[int] = []
    if not device.shares_memory:
        for buffer in buffers:
            buffer.slot = len(slots)
            slots.append(buffer.size)
        return slots
    alignment, least_packed = device.alignment, LEAST_PACKED_BYTES if device.has_arena else math.inf
    large: list[Buffer] = []
    free: list[tuple[int, int]] = []
    ending: list[tuple[int, int]] = []
    for buffer in buffers:
        if buffer.size >= least_packed:
            large.append(buffer)
            continue
        while ending and ending[0][0] < buffer.first:
            slot = heappop(ending)[1]
            insort(free, (slots[slot], slot))
        size = -(-buffer.size // alignment) * alignment
        if free:
            place = min(bisect_left(free, (size, 0)), len(free) - 1)
            buffer.slot = free.pop(place)[1]
            slots[buffer.slot] = max(slots[buffer.slot], size)
        else:
            buffer.slot = len(slots)
            slots.append(size)
        heappush(ending, (buffer.last, buffer.slot))
    _pack_large(large, slots, alignment)
    return slots


def _pack_large(buffers: list[Buffer], slots: list[int], alignment: int) -> None:
    """Add a slot for packed buffers, and further slots if there are very many buffers."""
    buffers.sort(key=lambda buffer: -buffer.size)  # stable
    for begin in range(0, len(buffers), MOST_PACKED):
        together = buffers[begin : begin + MOST_PACKED]
        for buffer in together:
            buffer.slot = len(slots)
        slots.append(pack(together, alignment))


def pack(buffers: Sequence[Buffer], alignment: int) -> int:
    """Set the offset of each buffer in a block; return the size of the block in bytes.

    Buffers are sorted by size, the largest first. The lifetimes of buffers are from position
    ``first`` to position ``last``, both included.
    """
    placed: list[tuple[int, int, int, int]] = []  # begin, end, first, last; by begin
    for buffer in buffers:
        size = -(-buffer.size // alignment) * alignment
        first, last, begin = buffer.first, buffer.last, 0
        for other_begin, other_end, other_first, other_last in placed:
            if other_first > last or other_last < first:
                continue
            if other_begin - begin >= size:
                break
            begin = max(begin, other_end)
        buffer.offset = begin
        insort(placed, (begin, begin + size, first, last))
    return max((end for _, end, _, _ in placed), default=0)
