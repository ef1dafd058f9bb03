"""``dist_shards``: a pass that copies each parameter's shard just before the parameter update.

The program lists the copies of all shards together, so the shards of all parameters would exist at
the same time, although memory for one shard is enough.
"""

from __future__ import annotations

from opwright.rewriting import Graph, LoweredOp


def dist_shards(graph: Graph) -> None:
    """Move every ``dist.shard`` just before its first reader if its tensor still exists there."""
    uses = graph.uses()
    places: dict[int, list[LoweredOp]] = {}
    for op in graph.of_type("dist.shard"):
        readers = uses.readers(op.output("out")[0])
        if readers and uses.may_move(op, readers[0]):
            places.setdefault(uses.position[readers[0]], []).append(op)
    moved = {op for ops in places.values() for op in ops}
    if not moved:
        return
    ops: list[LoweredOp] = []
    for position, op in enumerate(graph.ops):
        ops += places.get(position, ())
        if op not in moved:
            ops.append(op)
    graph.ops = ops
