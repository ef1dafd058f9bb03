"""Assigns memory: values reuse that of inputs, and share that of values that are not needed later.

Buffers that a plan owns get a *slot*: the smallest free one that is large enough, else the largest
free one, which grows. On an addressable device the slots follow each other in one arena, and large
buffers are packed into one slot; on others each slot is a separate buffer, so that a device with
opaque handles needs no pointer arithmetic. On a device that shares no memory every buffer is a slot
of exactly its size, so that a checker can watch its ends.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from itertools import accumulate

from opwright import _runtime
from opwright.describe.control import Loop
from opwright.errors import OutOfMemoryError
from opwright.lowering.graph.graph import Graph
from opwright.lowering.graph.signature import MAX_BYTES, size_bytes
from opwright.lowering.graph.values import Buffer, LoweredOp, Value, copy_op, new_value
from opwright.lowering.layout.packing import LEAST_PACKED_BYTES, MOST_PACKED, pack
from opwright.registry import HOST_DEVICE

LEAST_SHARED_BYTES = 4096
"""A Python kernel works in place from this size on."""

_N_LISTED = 3


class MemoryLayout:
    """Slot sizes in bytes for each device type (None: the plan's own)."""

    def __init__(self) -> None:
        self.slots: dict[str | None, list[int]] = {}

    def offsets(self, device: str | None) -> list[int]:
        """Return the offset of each slot in one arena, and the size of the arena."""
        return list(accumulate(self.slots.get(device, ()), initial=0))


def plan_memory(graph: Graph, device: _runtime.Device) -> MemoryLayout:
    """Assign a slot to every owned buffer, and let operators work in place.

    `device` is the plan's own.
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
    layout = _assign_slots(graph, {None: device, HOST_DEVICE: _runtime.host_device()})
    for name in layout.slots:
        _check_size(graph, layout, name)
    return layout


def _check_size(graph: Graph, layout: MemoryLayout, device: str | None) -> None:
    """Raise OutOfMemoryError, with the largest values, if no arena can be as large as all."""
    total = layout.offsets(device)[-1]
    if total <= MAX_BYTES:
        return
    owned = {
        value.buffer.root(): value
        for op in graph.ops
        for value in op.writes()
        if value.buffer.root().is_owned and value.buffer.root().device == device
    }
    largest = sorted(owned.values(), key=lambda value: -value.buffer.size)[:_N_LISTED]
    listed = ", ".join(f"{v.name!r} {v.meta} of {v.buffer.size} bytes" for v in largest)
    raise OutOfMemoryError(
        f"plan: its values must have less than 2**63 bytes together, got {total} bytes, the "
        f"largest in {listed}; make them smaller"
    )


def _place_sinks(graph: Graph) -> None:
    """Let the last writer write a fetched value to its destination, or else copy it there."""
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
    """Assign no memory to stacks of loops of which at most the shape is read."""
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
    """Let an operator write to other memory than a persistable that it reads, and copy the result.

    Only a declared alias or the kernel's ``may_reuse`` allows the same memory for both.
    """
    ops: list[LoweredOp] = []
    for op in graph.ops:
        ops.append(op)
        for value in () if op.is_copy else op.writes():
            if value.buffer.external is not None:
                ops += _separate_outputs(op)
                break
    graph.ops = ops


def _separate_outputs(op: LoweredOp) -> list[LoweredOp]:
    """Give outputs that must not overwrite inputs other memory; return the copies that follow."""
    copies = []
    allowed = _in_place_pairs(op)
    read = {value.buffer for value in op.data_reads()}
    outputs = list(op.outputs)
    for slot, values in enumerate(outputs):
        for k, value in enumerate(values):
            buffer = value.buffer
            if buffer.external is None or buffer not in read or (slot, buffer) in allowed:
                continue
            separate = new_value(value.name, value.meta, op)
            outputs[slot] = (*outputs[slot][:k], separate, *outputs[slot][k + 1 :])
            copies.append(copy_op(separate, value, op.index))
    op.outputs = tuple(outputs)
    return copies


def _in_place_pairs(op: LoweredOp) -> set[tuple[int, Buffer]]:
    """Return the (output slot, buffer) pairs for which the operator may overwrite the input."""
    pairs: set[tuple[int, Buffer]] = set()
    for out_slot, in_slot in op.definition.alias_slots:
        pairs.update((out_slot, value.buffer) for value in op.inputs[in_slot])
    pairs.update((out_slot, source.buffer) for out_slot, _, source in _reusable(op))
    return pairs


def _reusable(op: LoweredOp, dying_at: int | None = None) -> list[tuple[int, Value, Value]]:
    """Return (output slot, output, input) that may share memory, if no other slot reads the input.

    With ``dying_at``, a position, only inputs count that no later operator reads.
    """
    triples = []
    for out_slot, in_slot in op.reuse:
        source = op.inputs[in_slot][0]
        buffer = source.buffer.root()
        if (dying_at is None or buffer.last == dying_at) and _reads_once(op, buffer):
            triples.append((out_slot, op.outputs[out_slot][0], source))
    return triples


def _reads_once(op: LoweredOp, buffer: Buffer) -> bool:
    reads = op.data_reads()
    return len(reads) == 1 or [value.buffer.root() for value in reads].count(buffer) == 1


def _find_lifetimes(graph: Graph) -> None:
    for position, op in enumerate(graph.ops):
        for value in op.data_reads():
            value.buffer.last = position
        for value in op.writes():
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
    """Give an output the buffer of an input that no later operator reads, if the kernel may."""
    taken: list[Buffer] = []
    for _, out, source in _reusable(op, position):
        old, new = out.buffer, source.buffer.root()
        dies = new.last == position and new.is_owned and new not in taken
        fresh = old.first == position and old.is_owned and old.shared_with is None
        # NumPy spends 0.3 µs on arrays that overlap, more than a small array's memory is worth.
        is_small = old.size < LEAST_SHARED_BYTES and op.prepared.needs_gil
        if dies and fresh and old.device == new.device and not is_small:
            new.last = old.last
            old.shared_with = new
            taken.append(new)


def _assign_slots(graph: Graph, devices: Mapping[str | None, _runtime.Device]) -> MemoryLayout:
    """Assign slots: a buffer takes one at its first operator and frees it at its last."""
    layout = MemoryLayout()
    large: dict[str | None, dict[Buffer, None]] = {}
    free: dict[str | None, list[tuple[int, int]]] = {}
    ending: dict[int, list[Buffer]] = {}
    for position, op in enumerate(graph.ops):
        buffers = [value.buffer.root() for value in op.writes()]
        if op.workspace is not None:
            buffers.append(op.workspace)
        for buffer in buffers:
            if buffer.slot < 0 and buffer.is_owned:
                device = devices[buffer.device]
                slots = layout.slots.setdefault(buffer.device, [])
                if not device.shares_memory:
                    buffer.slot = len(slots)
                    slots.append(buffer.size)
                    continue
                if buffer.size >= LEAST_PACKED_BYTES and device.has_arena:
                    large.setdefault(buffer.device, {})[buffer] = None
                    continue
                _take_slot(buffer, slots, free.setdefault(buffer.device, []), device.alignment)
                ending.setdefault(buffer.last, []).append(buffer)
        for buffer in ending.pop(position, ()):
            size = layout.slots[buffer.device][buffer.slot]
            insort(free[buffer.device], (size, buffer.slot))
    for name, found in large.items():
        _pack_large(list(found), layout.slots[name], devices[name].alignment)
    return layout


def _pack_large(buffers: list[Buffer], slots: list[int], alignment: int) -> None:
    """Add a slot in which buffers are packed; where there are very many, one for the next, too."""
    buffers.sort(key=lambda buffer: -buffer.size)  # stable
    for begin in range(0, len(buffers), MOST_PACKED):
        together = buffers[begin : begin + MOST_PACKED]
        for buffer in together:
            buffer.slot = len(slots)
        slots.append(pack(together, alignment))


def _take_slot(
    buffer: Buffer, slots: list[int], free: list[tuple[int, int]], alignment: int
) -> None:
    size = -(-buffer.size // alignment) * alignment
    if not free:
        buffer.slot = len(slots)
        slots.append(size)
        return
    place = min(bisect_left(free, (size, 0)), len(free) - 1)
    _, buffer.slot = free.pop(place)
    slots[buffer.slot] = max(slots[buffer.slot], size)
