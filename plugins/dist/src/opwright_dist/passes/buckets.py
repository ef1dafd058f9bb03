"""``dist_buckets``: a pass that fuses collectives of one kind and overlaps them with the plan.

Each bucket is started as soon as its last tensor is written, and awaited before its first use. All
processes start the buckets in program order, independently of other passes.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from opwright.rewriting import Graph, LoweredOp, Meta, Uses, Value, size_bytes
from opwright_dist.groups.world import current_world
from opwright_dist.names import BUCKET_BYTES, DEFAULT_BUCKET_BYTES

_KEPT: Final = ("reduce", "group", "unequal_rows")
_WAITS_FOR: Final = {"dist.all_reduce": "x", "dist.reduce_shard": "x", "dist.unshard": "like"}
"""The fused operators, each with the input that determines the result shapes."""


class _Bucket(NamedTuple):
    """The collectives of one bucket, and their replacements."""

    ops: list[LoweredOp]
    start: LoweredOp
    wait: LoweredOp


def dist_buckets(graph: Graph) -> None:
    """Replace reductions and gathers by a start and a wait operator for each bucket."""
    types = [name for name in _WAITS_FOR if graph.of_type(name)]
    served = [name for name in types if graph.is_served(f"{name}_start")]
    ops = [op for op in graph.of_type(*served) if _meets(op)]
    if not ops:
        return
    limit = dict(graph.target.options or ()).get(f"dist.{BUCKET_BYTES}", DEFAULT_BUCKET_BYTES)
    parts = _Divider(graph.uses(), limit).divide(ops)
    _place(graph, [_make_bucket(graph, part) for part in parts if not _stays(graph.uses(), part)])


def _stays(uses: Uses, part: list[LoweredOp]) -> bool:
    """Return whether to keep a collective unchanged, since a bucket would not allow any overlap."""
    if len(part) > 1:
        return False
    (op,) = part
    written, used = written_at(uses, op.input("x")[0]), first_use(uses, op.output("out")[0])
    return written + 2 == used == uses.position[op] + 1


def _meets(op: LoweredOp) -> bool:
    return current_world().group(op.attrs["group"]).size > 1


class _Divider:
    """Divides collectives of each kind into buckets, in program order."""

    def __init__(self, uses: Uses, limit: int) -> None:
        self._uses = uses
        self._limit = limit

    def divide(self, ops: list[LoweredOp]) -> list[list[LoweredOp]]:
        """Return the buckets; each ends at the size limit or if the next operator does not fit."""
        parts: list[list[LoweredOp]] = []
        size = 0
        for op in ops:
            if not parts or size >= self._limit or not self._fits(op, parts[-1]):
                parts.append([])
                size = 0
            parts[-1].append(op)
            size += size_bytes(op.input("x")[0].meta)
        return parts

    def _fits(self, op: LoweredOp, part: list[LoweredOp]) -> bool:
        """Return whether the bucket, extended by `op`, can start when its last tensor is written.

        At that point every tensor must still exist, and no result may have been read.
        """
        if _kind_of(op) != _kind_of(part[0]):
            return False
        uses, longer = self._uses, [*part, op]
        written = [written_at(uses, member.input("x")[0]) for member in longer]
        start = max(written)
        return all(
            uses.holds(member.input("x")[0], start + 1)
            and first_use(uses, member.output("out")[0]) > start
            for member in longer
        )


def _kind_of(op: LoweredOp) -> tuple[object, ...]:
    dtype = op.input("x")[0].meta.dtype
    return (op.type, dtype, *(op.attrs.get(name) for name in _KEPT), *_rows_of(op))


def _rows_of(op: LoweredOp) -> tuple[Value, ...]:
    return op.input("rows") if "rows" in op.definition.input_index else ()


def written_at(uses: Uses, value: Value) -> int:
    """Return the position of the operator that writes a value, or -1 for an input."""
    return uses.written_at(value.source or value)


def first_use(uses: Uses, value: Value) -> int:
    """Return the position of the first reader of a value, or the operator count if it is unread."""
    readers = uses.readers(value)
    return uses.position[readers[0]] if readers else len(uses.position)


def _make_bucket(graph: Graph, ops: list[LoweredOp]) -> _Bucket:
    first = ops[0]
    outs = [op.output("out")[0] for op in ops]
    handle = graph.value(f"{outs[0].name}/handle", Meta((1,), "int64"))
    attrs = {name: first.attrs[name] for name in _KEPT if name in first.attrs}
    given: dict[str, Any] = {"x": [op.input("x")[0] for op in ops]}
    if rows := _rows_of(first):
        given["rows"] = rows
    start = graph.make(f"{first.type}_start", given, {"handle": handle}, attrs, like=first)
    told = _WAITS_FOR[first.type]
    shapes: dict[str, Any] = {told: [op.input(told)[0] for op in ops], "handle": handle}
    of_group = {"group": attrs["group"]} if first.type == "dist.reduce_shard" else {}
    wait = graph.make(f"{first.type}_wait", shapes, {"out": outs}, of_group, like=first)
    start.origins = wait.origins = tuple([op.index for op in ops])
    return _Bucket(ops, start, wait)


def _place(graph: Graph, buckets: list[_Bucket]) -> None:
    """Place each start after the last write of its tensors, and each wait before the first use."""
    uses = graph.uses()
    gone = {op for bucket in buckets for op in bucket.ops}
    behind: dict[int, list[LoweredOp]] = {}
    before: dict[int, list[LoweredOp]] = {}
    # Starts stay in program order, which is the same on all processes. This order includes unfused
    # reductions.
    staying = [uses.position[op] for op in graph.of_type(*_WAITS_FOR) if op not in gone]
    started = -1
    for bucket in buckets:
        first = uses.position[bucket.ops[0]]
        started = max(started, *(position for position in staying if position < first), -1)
        started = max(started, *(written_at(uses, value) for value in bucket.start.input("x")))
        behind.setdefault(started, []).append(bucket.start)
        use = min(first_use(uses, value) for value in bucket.wait.output("out"))
        before.setdefault(use, []).append(bucket.wait)
        for op in (bucket.start, bucket.wait):
            for value in op.writes():
                value.op = op
    ops = list(behind.get(-1, ()))
    for position, op in enumerate(graph.ops):
        ops += before.get(position, ())
        if op not in gone:
            ops.append(op)
        ops += behind.get(position, ())
    graph.ops = ops + before.get(len(graph.ops), [])
