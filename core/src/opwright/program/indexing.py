"""Translates ``x[key]`` by NumPy's rules into slice, squeeze, unsqueeze and gather.

A key consists of ints, slices, ``...``, ``None`` and at most one index array, which is an integer
Variable, a NumPy array or a list. None inserts an axis of length 1.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from opwright.errors import ShapeError, SlotError

if TYPE_CHECKING:
    from opwright.program.variable import Variable

Call = tuple[str, tuple[Any, ...], dict[str, Any]]
"""An operator type, its inputs after x, and its attributes."""

_END: Final = 2**31 - 1
"""An index after the last element of any axis; its negative is before the first element."""


_Cut = tuple[int, int, int, int]
"""A slice as axis, first index, index after the last, and step."""


def read_key(x: Variable, key: Any) -> list[Call]:
    """Return the operators that index a variable, in order, or [] if the key selects all elements.

    Raises ShapeError for more indices than x has axes, an index outside a known axis, a step of 0,
    and an unknown number of axes, and SlotError for a mask, several index arrays, and invalid keys.
    """
    parts = list(key) if isinstance(key, tuple) else [key]
    parts = [np.asarray(part) if isinstance(part, list) else part for part in parts]
    _check_kinds(x, parts)
    return _list_calls(x, _add_full_slices(x, parts))


def _check_kinds(x: Variable, parts: Sequence[Any]) -> None:
    arrays = [part for part in parts if _is_array(part)]
    for part in arrays:
        if str(part.dtype) == "bool":
            _fail(x, part, "the shape for a mask depends on values; use opwright.ops.where")
        if not str(part.dtype).startswith(("int", "uint")):
            _fail(x, part, "cast the indices to int64")
    if len(arrays) > 1:
        _fail(x, arrays[1], "use opwright.ops.gather_nd, or index with one after the other")
    if sum(part is Ellipsis for part in parts) > 1:
        _fail(x, Ellipsis, "write it once")


def _is_array(part: Any) -> bool:
    return hasattr(part, "dtype") and not isinstance(part, np.generic)


def _position(x: Variable, part: Any) -> int:
    if isinstance(part, (bool, np.bool_)):
        _fail(x, part, "write None for a new axis")
    try:
        return operator.index(part)
    except TypeError:
        _fail(x, part, "write x[i] alone if a run computes i, or use opwright.ops.gather")


def _fail(x: Variable, part: Any, way_out: str) -> NoReturn:
    raise SlotError(
        f"{x.name}: an index must hold ints, slices, ..., None and at most one array of positions, "
        f"got {part!r}; {way_out}"
    )


def _add_full_slices(x: Variable, parts: list[Any]) -> list[Any]:
    """Return the key with a full slice for every omitted axis."""
    n_axes = sum(part is not None and part is not Ellipsis for part in parts)
    index = next((i for i, part in enumerate(parts) if part is Ellipsis), len(parts))
    if x.shape is None:
        if index == len(parts):  # any number of last axes may be omitted
            return parts
        _fail_rank(x)
    if n_axes > len(x.shape):
        raise ShapeError(
            f"{x.name}: an index must have at most {len(x.shape)} parts besides None, one for each "
            f"axis, got {n_axes} parts for {x!r}"
        )
    full = [slice(None)] * (len(x.shape) - n_axes)
    return parts[:index] + full + parts[index + 1 :]


def _fail_rank(x: Variable) -> NoReturn:
    raise ShapeError(
        f"{x.name}: '...' needs a known number of axes, got {x!r}; give x a shape, or count axes "
        "from the front"
    )


def _list_calls(x: Variable, parts: Sequence[Any]) -> list[Call]:
    cuts: list[_Cut] = []
    squeezed: list[int] = []
    gather: Call | None = None
    inserted: list[int] = []
    axis = out_axis = 0  # axes of x and of the result
    for part in parts:
        if part is None:
            inserted.append(out_axis)
            out_axis += 1
            continue
        if isinstance(part, slice):
            cuts += _read_slice(x, axis, part)
            out_axis += 1
        elif _is_array(part):
            if part.shape is None:
                _fail_rank(part)
            gather = ("gather", (part,), {"axis": axis - len(squeezed)})
            out_axis += len(part.shape)
        else:
            cuts.append(_read_position(x, axis, part))
            squeezed.append(axis)
        axis += 1
    if gather is not None and squeezed:
        _check_adjacent(x, parts)
    calls: list[Call] = []
    if cuts:
        axes, starts, ends, steps = map(list, zip(*cuts, strict=True))
        attrs = {"axes": axes, "starts": starts, "ends": ends}
        calls.append(("slice", (), attrs if set(steps) == {1} else {**attrs, "steps": steps}))
    if squeezed:
        calls.append(("squeeze", (), {"axis": squeezed}))
    if gather is not None:
        calls.append(gather)
    if inserted:
        calls.append(("unsqueeze", (), {"axis": inserted}))
    return calls


def _check_adjacent(x: Variable, parts: Sequence[Any]) -> None:
    """Refuse an int that is separated from an array, because NumPy then moves the indexed axes."""
    places = [i for i, p in enumerate(parts) if p is not None and not isinstance(p, slice)]
    if places[-1] - places[0] != len(places) - 1:
        _fail(x, parts[places[-1]], "index with the int first, then with the array")


def _read_slice(x: Variable, axis: int, part: slice) -> list[_Cut]:
    """Return the slice of an axis in a list, which is empty for a full slice."""
    if part == slice(None):
        return []
    step = 1 if part.step is None else _bound(x, part.step)
    if step == 0:
        raise ShapeError(f"{x.name}: the step of a slice must not be 0, got {part!r}")
    first, last = (0, _END) if step > 0 else (_END, -_END - 1)
    start = first if part.start is None else _bound(x, part.start)
    end = last if part.stop is None else _bound(x, part.stop)
    return [(axis, start, end, step)]


def _bound(x: Variable, bound: Any) -> int:
    if _is_array(bound):
        _fail(x, bound, "bounds of slices must be numbers; use opwright.ops.gather with arange")
    return max(-_END - 1, min(_END, _position(x, bound)))


def _read_position(x: Variable, axis: int, part: Any) -> _Cut:
    position = _position(x, part)
    length = -1 if x.shape is None else x.shape[axis]
    if length != -1 and not -length <= position < length:
        raise ShapeError(
            f"{x.name}: an index on axis {axis} must be in [{-length}, {length}), got {position}"
        )
    return axis, position, _END if position == -1 else position + 1, 1
