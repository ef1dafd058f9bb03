"""``dist_alone``: a pass that removes collectives in a group of one."""

from __future__ import annotations

from opwright.rewriting import Graph, LoweredOp
from opwright_dist.groups.world import current_world
from opwright_dist.names import COLLECTIVE_TYPES


def dist_alone(graph: Graph) -> None:
    """Replace a single-process collective by its input, or by a copy of the input if required."""
    alone = [op for op in graph.of_type(*COLLECTIVE_TYPES) if _is_alone(op)]
    if not alone:
        return
    edit = graph.edit()
    left = [op for op in alone if not edit.bypass(op, edit.current(op.input("x")[0]))]
    edit.apply()
    edit = graph.edit()
    for op in left:
        copy = graph.make("assign", {"x": op.input("x")}, {"out": op.output("out")}, like=op)
        edit.fuse([op], [copy])
    edit.apply()


def _is_alone(op: LoweredOp) -> bool:
    return current_world().group(op.attrs["group"]).size == 1
