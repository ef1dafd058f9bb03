"""Splits an axis into several axes, even if other dimensions are unknown."""

from __future__ import annotations

from collections.abc import Sequence

from opwright.op import BodyContext, Shape


def split_axis(
    b: BodyContext, name: str | None, shape: Shape, axis: int, parts: Sequence[int]
) -> str:
    """Emit a variable with one axis split into several axes.

    Parameters
    ----------
    b : BodyContext
        The context that receives the operators.
    name : str
        The variable.
    shape : tuple of int
        Its shape, -1 if unknown.
    axis : int
        The axis to split, counted from 0.
    parts : sequence of int
        The lengths that replace this axis; at most one may be -1.
    """
    # In the shape of a reshape, 0 copies the dimension at the same position of the input. Positions
    # change after the axis, so an unknown dimension there must be -1.
    rest = list(shape[axis + 1 :])
    if rest.count(-1) + list(parts).count(-1) <= 1 and 0 not in rest:
        wanted = [*[0] * axis, *parts, *rest]
        return b.emit("reshape", {"x": name}, attrs={"shape": wanted})
    rank, count = len(shape), len(parts)
    if axis < rank - 1:
        order = [i for i in range(rank) if i != axis]
        name = b.emit("transpose", {"x": name}, attrs={"axes": [*order, axis]})
    name = b.emit("reshape", {"x": name}, attrs={"shape": [*[0] * (rank - 1), *parts]})
    if axis == rank - 1:
        return name
    made = range(rank - 1, rank - 1 + count)
    axes = [*range(axis), *made, *range(axis, rank - 1)]
    return b.emit("transpose", {"x": name}, attrs={"axes": axes})
