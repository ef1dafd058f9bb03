"""Cuts the arrays of a loop into the elements or segments of its iterations."""

from __future__ import annotations

from typing import NamedTuple

from opwright.describe.control import Loop, names_in
from opwright.describe.meta import Meta
from opwright.errors import ShapeError
from opwright.lowering.graph.signature import size_bytes
from opwright.lowering.graph.values import LoweredOp


class Part(NamedTuple):
    """Iterations with segments of one length, run by one plan of the body."""

    first: int  # the number of iterations before them
    n_turns: int  # -1 for any number
    rows: int  # elements in a segment


class Segments(NamedTuple):
    """How a loop cuts its arrays."""

    names: frozenset[str]  # the variables of the body that are segments; the others are elements
    rows: int  # elements in each segment but the last; 0 for a loop without segments
    n_elements: int

    @property
    def n_turns(self) -> int:
        """The number of segments."""
        return -(-self.n_elements // self.rows)

    def cut(self, n_turns: int) -> list[Part]:
        """Return the parts of a loop of this many iterations; the last may be shorter."""
        if self.rows == 0:
            return [Part(0, n_turns, 0)]
        whole, rest = divmod(self.n_elements, self.rows)
        parts = [Part(0, whole, self.rows)] if whole or not rest else []
        return [*parts, Part(whole, 1, rest)] if rest else parts

    def read(self, name: str, array: Meta, part: Part) -> Meta:
        """Return the meta of the part of an array that an iteration reads."""
        rows = (part.rows,) if name in self.names else ()
        return Meta((*rows, *array.shape[1:]), array.dtype)

    def join(self, op: LoweredOp, name: str, added: Meta, part: Part, n_turns: int) -> Meta:
        """Return the meta of the array to which all iterations add."""
        if name not in self.names:
            return Meta((n_turns, *added.shape), added.dtype)
        if added.shape[:1] != (part.rows,):
            raise ShapeError(
                f"{op.type}: {name!r} must have as many elements as the segments that a turn "
                f"reads, {part.rows} along axis 0, got {added}"
            )
        return Meta((self.n_elements, *added.shape[1:]), added.dtype)

    def skip(self, name: str, array: Meta, part: Part) -> int:
        """Return the offset in bytes at which the first iteration of a part reads an array."""
        rows = part.first * (self.rows if name in self.names else 1)
        return size_bytes(Meta((rows, *array.shape[1:]), array.dtype))


def find_segments(op: LoweredOp, control: Loop) -> Segments:
    """Return how an operator cuts its arrays; ShapeError if their lengths along axis 0 differ."""
    rows = op.attrs.get(control.segment or "")
    if rows is None:
        return Segments(frozenset(), 0, 0)
    names = frozenset(names_in(op.attrs, control.segmented))
    elements = names_in(op.attrs, control.block_elements)
    read = {
        value.name: value.meta.shape[:1]
        for name, value in zip(elements, op.input(control.sequences), strict=True)
        if name in names
    }
    if len(set(read.values())) != 1 or () in read.values():
        listed = ", ".join(f"{name!r} {list(length)}" for name, length in read.items())
        raise ShapeError(
            f"{op.type}: {control.sequences} that are read in segments must have one length along "
            f"axis 0, got {listed or 'none'}"
        )
    return Segments(names, rows, next(iter(read.values()))[0])
