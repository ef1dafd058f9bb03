"""``dist_shards``: each part of a parameter is copied just before it is updated.

The program names all parts at once. Copied in its place, the parts of all parameters would be there
together, where the memory of one serves all.
"""

from __future__ import annotations

from opwright.rewriting import Graph, LoweredOp


def dist_shards(graph: Graph) -> None:
    """Move every ``dist.shard`` to before its first reader, where its tensor still is."""
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
