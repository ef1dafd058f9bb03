"""Proposes inputs for an operator from its OpProto; its shape rule accepts or refuses them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from opwright.errors import SlotError
from opwright.op import OpDefinition, VarProto, dtype_to_numpy, numel
from opwright_kit.testing.samples.sample import Array, SlotMetas

if TYPE_CHECKING:
    from opwright_kit.testing.samples.draw import Draw

Shape = tuple[int, ...]

_FREE: Final = range(2, 7)
"""Lengths of axes in cases that test something other than lengths."""

_SHAPE_IN_COMMENT: Final = re.compile(r"\[([^\[\]()]*)\]")
_SYMBOL: Final = re.compile(r"[A-Za-z_][\w ]*")


def draw(draw: Draw, progress: float) -> dict[str, tuple[Array, ...]] | None:
    """Return arrays for every input slot, or None if a dtype does not fit or they are too large.

    Parameters
    ----------
    draw : Draw
    progress : float
        0 at the first attempt, rising to 1: shapes from the comments come first.
    """
    dtypes = choose_dtypes(draw)
    if dtypes is None:
        return None
    counts = {slot.name: _count(slot, draw.rng) for slot in draw.definition.proto.inputs}
    shapes = _choose_shapes(draw, counts, progress)
    if sum(numel(s) for slot_shapes in shapes.values() for s in slot_shapes) > draw.most_elements:
        return None
    least = min(
        (dim for slot_shapes in shapes.values() for s in slot_shapes for dim in s if dim), default=1
    )
    return {
        slot: tuple(_values(draw, slot, shape, dtypes[slot], least) for shape in slot_shapes)
        for slot, slot_shapes in shapes.items()
    }


def choose_dtypes(draw: Draw) -> dict[str, str] | None:
    """Return a dtype for each input slot, or None if the dispatch dtype is impossible."""
    proto = draw.definition.proto
    dtypes: dict[str, str] = {}
    for _ in range(len(proto.inputs) + 1):  # `same_as` may point forward
        for slot in proto.inputs:
            dtype = _dtype_of(draw, slot, dtypes)
            if dtype is not None:
                dtypes.setdefault(slot.name, dtype)
    for slot in proto.inputs:
        dtypes.setdefault(slot.name, draw.dtype)
        if slot.dtypes and dtypes[slot.name] not in slot.dtypes:
            return None
    return dtypes


def _dtype_of(draw: Draw, slot: VarProto, dtypes: Mapping[str, str]) -> str | None:
    if slot.name == draw.definition.proto.dispatch_slot:
        return draw.dtype
    if slot.same_as is not None and slot.same_as != slot.name:
        return dtypes.get(slot.same_as) or draw.attrs.get(slot.same_as)
    if slot.dtypes:
        fits = draw.dtype in slot.dtypes and draw.rng.random() < 0.6
        return draw.dtype if fits else str(draw.choice(slot.dtypes))
    return None


def _count(slot: VarProto, rng: np.random.Generator) -> int:
    if slot.optional and rng.random() < 0.4:
        return 0
    return int(rng.integers(1, 4)) if slot.duplicable else 1


def _choose_shapes(
    draw: Draw, counts: Mapping[str, int], progress: float
) -> dict[str, list[Shape]]:
    slots = [slot for slot in draw.definition.proto.inputs if counts[slot.name]]
    if progress < 0.25 and any(_symbols(slot) is not None for slot in slots):
        return _as_written(draw, slots, counts)
    first = _first_shape(draw)
    shapes: dict[str, list[Shape]] = {}
    for i, slot in enumerate(slots):
        shape = first if i == 0 else _beside(draw, first, progress)
        shapes[slot.name] = [shape] * counts[slot.name]
    return shapes


def _first_shape(draw: Draw) -> Shape:
    rng = draw.rng
    # A tensor without axes has no length, so it is used only if the case requires no length.
    ranks = [1, 2, 2, 3, 4, 0] if draw.length in _FREE else [1, 2, 2, 3, 4]
    rank = int(rng.choice([2, 2, 3, 4] if draw.rows else ranks))
    if rank == 0:
        return ()
    dims = [draw.other_length() for _ in range(rank)]
    axis = int(rng.integers(rank)) if rng.random() < 0.3 else -1
    dims[0 if draw.rows else axis] = draw.length
    return tuple(dims)


def _beside(draw: Draw, first: Shape, progress: float) -> Shape:
    """Return a shape that operators often take together with the shape of the first input."""
    rng = draw.rng
    if progress < 0.5 and rng.random() < 0.6:
        return first
    broadcast = tuple(1 if rng.random() < 0.4 else dim for dim in first)
    choices = [
        first,
        broadcast,
        broadcast[int(rng.integers(len(first) + 1)) :],
        first[-1:],
        first[:-1],
        (*first[:-1], 1),
        first[1:2],
        (1,),
        (),
        (*first[-1:], draw.other_length()),
        (*first[:-2], *first[-1:], draw.other_length()),
        tuple(draw.other_length() for _ in range(int(rng.integers(1, 4)))),
    ]
    return choices[int(rng.integers(len(choices)))]


def _symbols(slot: VarProto) -> list[str] | None:
    """Return the dims in a comment such as ``float [n, classes]``, or None if it has no dims."""
    match = _SHAPE_IN_COMMENT.search(slot.comment)
    if match is None:
        return None
    parts = [part.strip() for part in match[1].split(",") if part.strip()]
    fits = all(part.isdigit() or part == "..." or _SYMBOL.fullmatch(part) for part in parts)
    return parts if fits else None


def _as_written(
    draw: Draw, slots: list[VarProto], counts: Mapping[str, int]
) -> dict[str, list[Shape]]:
    """Return shapes by the names of dims in the comments; equal names get equal lengths."""
    rng = draw.rng
    names = dict.fromkeys(part for slot in slots for part in _symbols(slot) or ())
    free = [name for name in names if not name.isdigit() and name != "..."]
    lengths = {name: draw.other_length() for name in free}
    extra = tuple(draw.other_length() for _ in range(int(rng.integers(0, 3))))
    if draw.rows and next(iter(names), None) == "...":
        extra = (draw.length, *extra[1:])
    elif free:
        lengths[free[0 if draw.rows else int(rng.integers(len(free)))]] = draw.length
    first: Shape = ()
    shapes: dict[str, list[Shape]] = {}
    for slot in slots:
        parts = _symbols(slot)
        if parts is None:
            shape = first or _first_shape(draw)
        else:
            shape = tuple(
                dim
                for part in parts
                for dim in (
                    extra if part == "..." else (int(part) if part.isdigit() else lengths[part],)
                )
            )
        first = first or shape
        shapes[slot.name] = [shape] * counts[slot.name]
    return shapes


def _values(draw: Draw, slot: str, shape: Shape, dtype: str, least: int) -> Array:
    """Return the values of an array; integers next to floats are likely positions or counts."""
    kind = dtype_to_numpy(dtype).kind
    if kind in "iu" and slot != draw.definition.proto.dispatch_slot:
        return draw.integers(shape, 0, least, dtype)
    if kind in "iu":
        return draw.integers(shape, 0 if kind == "u" else -4, 5, dtype)
    return draw.floats(shape, dtype=dtype)


def output_counts(
    definition: OpDefinition, metas: SlotMetas, attrs: Mapping[str, Any], rng: np.random.Generator
) -> dict[str, int]:
    """Return the number of variables in each output slot; optional outputs are present at random.

    An output that aliases an absent input is absent.
    """
    try:
        counts = list(definition.output_counts(metas, attrs))
    except SlotError:
        n = int(rng.integers(1, 4))
        counts = [n if slot.duplicable else 1 for slot in definition.proto.outputs]
    wants_optional = rng.random() < 0.6
    for i, slot in enumerate(definition.proto.outputs):
        if slot.aliases is not None:
            counts[i] = len(metas[definition.input_index[slot.aliases]])
        elif slot.optional:
            counts[i] = int(wants_optional)
    return {slot.name: n for slot, n in zip(definition.proto.outputs, counts, strict=True)}
