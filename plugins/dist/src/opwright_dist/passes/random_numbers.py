"""``dist_random`` makes processes draw the same numbers as one process with the whole batch.

For each tensor element, random operators such as dropout draw a number that depends on the element
index. If the processes share a batch, indices must refer to the tensor of the whole batch. Each
process therefore determines the number of rows before its own rows, and the random operator draws
for its part.
"""

from __future__ import annotations

from typing import NamedTuple

import opwright as ow
from opwright.errors import ProgramError
from opwright.op import format_shape
from opwright.rewriting import Graph, LoweredOp, Meta, Value

_WAY_OUT = "or draw independently in each process with passes=['-dist_random']"
_AVERAGES = ("dist.all_reduce", "dist.reduce_shard")


class _Sharing(NamedTuple):
    """How a batch is distributed over processes.

    Attributes
    ----------
    group : str
    rows : str
        The variable whose first dimension is the number of examples.
    unequal_rows : str
    """

    group: str
    rows: str
    unequal_rows: str


def dist_random(graph: Graph) -> None:
    """In a program that averages gradients, replace random operators by variants for parts."""
    ops = [op for op in graph.ops if _draws_for_elements(op)]
    sharing = _find_sharing(graph.program) if ops else None
    if sharing is None:
        return
    from opwright_dist.groups.world import current_world  # the import takes 5 ms

    if current_world().group(sharing.group).size == 1:
        return
    axes = {op: _find_axis(graph, op) for op in ops}
    placed = {op: axis for op, axis in axes.items() if axis is not None}
    if placed:
        _place(graph, placed, sharing)


def _draws_for_elements(op: LoweredOp) -> bool:
    """Return whether an operator draws a number for each element of an input, as in training."""
    if not op.definition.random or op.attrs.get("training") is False:
        return False
    if op.type.endswith("_part"):
        return False
    return any(slot.name != "step" for slot in op.definition.proto.inputs)


def _find_sharing(program: ow.Program | None) -> _Sharing | None:
    """Return how the batch is distributed, or None if gradients are not averaged."""
    if program is None:
        return None
    for op in program.global_block().ops:
        if op.type in _AVERAGES and op.input("rows"):
            group, unequal_rows = str(op.attrs["group"]), str(op.attrs["unequal_rows"])
            return _Sharing(group, op.input("rows")[0], unequal_rows)
    return None


def _find_axis(graph: Graph, op: LoweredOp) -> int | None:
    """Return the batch axis: the first unknown dimension in the program.

    Return None if all dimensions are known: such a tensor, for example a parameter, is replicated.
    """
    out = op.writes()[0]
    if graph.is_body or graph.program is None:
        raise ProgramError(
            f"{op.type}: random numbers for a shared batch must be drawn "
            f"outside loops and branches, got {out.name!r} inside; draw them outside, "
            f"{_WAY_OUT}"
        )
    declared = graph.program.global_block().find_var(out.name)
    shape = None if declared is None else declared.shape
    if shape is None:
        raise ProgramError(
            f"{op.type}: random numbers for a shared batch need an output "
            f"with a declared shape, got {out.name!r} without a shape; declare it, "
            f"{_WAY_OUT}"
        )
    return shape.index(-1) if -1 in shape else None


def _place(graph: Graph, axes: dict[LoweredOp, int], sharing: _Sharing) -> None:
    first = next(iter(axes))
    rows = _find_rows(graph, sharing, first)
    part = graph.value("part", Meta((3,), "int64"))
    attrs = {
        "group": sharing.group,
        "unequal_rows": sharing.unequal_rows,
        "seeds": sorted({op.attrs["seed"] for op in axes}),
    }
    made = graph.make("dist.part", {"rows": rows}, {"part": part}, attrs, like=first)
    part.op = made
    for op, axis in axes.items():
        _check_length(op, axis, rows)
    new = {op: _make_part(graph, op, axis, part) for op, axis in axes.items()}
    for old, op in new.items():
        for value in old.writes():
            value.op = op
    place = graph.ops.index(first)
    graph.ops = [*graph.ops[:place], made, *(new.get(op, op) for op in graph.ops[place:])]


def _find_rows(graph: Graph, sharing: _Sharing, op: LoweredOp) -> Value:
    for average in graph.of_type(*_AVERAGES):
        for value in average.input("rows"):
            if value.name == sharing.rows:
                return value
    rows = graph.feeds.get(sharing.rows)
    if rows is None:
        raise ProgramError(
            f"{op.type}: the number of examples must be known to draw random numbers for a "
            f"shared batch, got a part of the program without {sharing.rows!r}; run the "
            f"whole program, {_WAY_OUT}"
        )
    return rows


def _check_length(op: LoweredOp, axis: int, rows: Value) -> None:
    shape, n_rows = op.writes()[0].meta.shape, rows.meta.shape[0]
    if n_rows and shape[axis] % n_rows:
        raise ProgramError(
            f"{op.type}: the first unknown dimension of its tensor must be the number of "
            f"examples, {n_rows}, or a multiple of it, got {format_shape(shape)} with "
            f"{shape[axis]} on axis {axis}; make the examples the first unknown dimension, "
            f"{_WAY_OUT}"
        )


def _make_part(graph: Graph, op: LoweredOp, axis: int, part: Value) -> LoweredOp:
    part_type = f"{op.type}_part" if "." in op.type else f"std.{op.type}_part"
    definition = graph.definition(part_type)
    if definition is None:
        raise ProgramError(
            f"{op.type}: random numbers for a shared batch need an operator "
            f"for parts, got none, since no plugin provides {part_type!r}; provide it, "
            f"{_WAY_OUT}"
        )
    inputs = {slot: op.input(slot) for slot in op.definition.input_index}
    outputs = {slot: op.output(slot) for slot in op.definition.output_index}
    attrs = {name: op.attrs[name] for name in definition.attr_names if name in op.attrs}
    attrs["axis"] = axis
    return graph.make(definition, {**inputs, "part": part}, outputs, attrs, like=op)
