"""Test cases of gather_nd, scatter_nd, take_along_axis, scatter and index_select."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from case import FLOATS, INTS, LENGTHS, NUMBERS, WIDE, Array, Case, Random, Values
from cases.gather import gather
from cases.movement import from_positions

EVERY = (*FLOATS, *INTS, "bool")
RANK = "the last length of index says how many axes of x it names"
WHOLE = "covered by the cases in floats only"


def _largest(a: Any, b: Any) -> Any:
    return a if a >= b or a != a else b


def _least(a: Any, b: Any) -> Any:
    return a if a <= b or a != a else b


COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "none": lambda a, b: b,
    "add": operator.add,
    "mul": operator.mul,
    "max": _largest,
    "min": _least,
}


def gather_nd(x: Array, index: Array) -> Array:
    k = index.shape[-1]
    shape = (*index.shape[:-1], *x.shape[k:])
    batch = index.ndim - 1
    return from_positions(shape, lambda *at: x[(*index[at[:batch]], *at[batch:])])


def scatter_nd(x: Array, index: Array, updates: Array, reduction: str = "none") -> Array:
    out, batch = x.copy(), index.ndim - 1
    for at in np.ndindex(*updates.shape):
        place = (*index[at[:batch]], *at[batch:])
        out[place] = COMBINE[reduction](out[place], updates[at])
    return out


def scatter(
    x: Array, index: Array, updates: Array, axis: int = 0, reduction: str = "none"
) -> Array:
    out = x.copy()
    axis %= x.ndim
    for at in np.ndindex(*index.shape):
        place = (*at[:axis], index[at], *at[axis + 1 :])
        out[place] = COMBINE[reduction](out[place], updates[at])
    return out


def take_along_axis(x: Array, index: Array, axis: int = -1) -> Array:
    axis %= x.ndim
    lengths = [max(a, b) if min(a, b) else 0 for a, b in zip(x.shape, index.shape, strict=True)]
    lengths[axis] = index.shape[axis]

    def find(*at: int) -> Any:
        here = tuple(i if n > 1 else 0 for i, n in zip(at, index.shape, strict=True))
        source = [i if n > 1 else 0 for i, n in zip(at, x.shape, strict=True)]
        source[axis] = index[here]
        return x[tuple(source)]

    return from_positions(lengths, find)


def look_up(
    op: str, expected: Any, label: str, x: Any, index: Any, kind: str = "int64", **options: Any
) -> Case:
    source = index if isinstance(index, Random) else Values(index, kind)
    inputs = {"x": Random(x, -9, 9), "index": source}
    if op == "gather_nd":
        options["known_shapes"] = RANK
    return Case(op, inputs, expected, label=label, ulps=0, **options)


def written(
    op: str, label: str, x: Any, index: Any, updates: Any, kind: str = "int64", **options: Any
) -> Case:
    source = index if isinstance(index, Random) else Values(index, kind)
    how = {"distinct": True} if len(updates) else {}
    inputs = {"x": Random(x, **how), "index": source, "updates": Random(updates, **how)}
    reference = scatter if op == "scatter" else scatter_nd
    if op == "scatter_nd":
        options["known_shapes"] = RANK
    return Case(op, inputs, reference, label=label, terms=8, **options)


def below(shape: tuple[int, ...], count: int) -> Random:
    """Return random positions, many of them repeated in long arrays."""
    return Random(shape, -count, count - 1, dtype="int64")


TIES = {
    "x": Values([1.0, 5.0, np.nan, 0.0]),
    "index": Values([0, 0, 1, 1, 2, 3, 3], "int64"),
    "updates": Values([1.0, 1.0, 5.0, 2.0, 1.0, np.nan, np.nan]),
}


def shared(x: Array, index: Array, updates: Array, out_grad: Array, **how: Any) -> Any:
    """Return the gradients of max; equal maxima share the gradient equally, as do NaN values."""
    out = scatter(x, index, updates, **how)
    same = np.array([u == out[i] or (u != u and out[i] != out[i]) for u, i in zip(updates, index)])
    own = (x == out) | ((x != x) & (out != out))
    count = own + np.bincount(index[same], minlength=x.size)
    part = np.where(count > 0, out_grad / np.maximum(count, 1), 0)
    return np.where(own, part, 0), np.where(same, part[index], 0)


REDUCED = ("add", "mul", "max", "min")

CASES = (
    *(
        look_up("index_select", gather, label, x, index, **options)
        for label, x, index, options in (
            ("rows", (4, 3), [0, 3, 3, -1], {}),
            ("last", (2, 3, 4), [3, 0, 3], {"attrs": {"axis": -1}}),
            ("none", (4, 3), [], {}),
            ("empty", (0, 3), [], {}),
            ("dtypes", (4, 3), [1, -1], {"dtypes": EVERY, "no_grad": WHOLE}),
        )
    ),
    *(
        look_up("gather_nd", gather_nd, label, x, index, **options)
        for label, x, index, options in (
            ("rows", (4, 3), [[0], [3], [3], [-1]], {}),
            ("elements", (4, 3), [[0, 1], [3, -3], [0, 1]], {"kind": "int32"}),
            ("matrix", (2, 3, 4), [[[0, 1]], [[1, -1]]], {}),
            ("scalar", (4, 3), [2], {}),
            ("one", (5,), [[4], [4], [0]], {}),
            ("none", (4, 3), np.zeros((0, 2), int), {}),
            ("empty", (0, 3), np.zeros((0, 1), int), {}),
            ("long", (7, 3, 2), below((90, 2), 3), {}),
            ("dtypes", (4, 3), [[1, 0], [-1, 2]], {"dtypes": EVERY, "no_grad": WHOLE}),
        )
    ),
    *(look_up("gather_nd", gather_nd, f"width-{n}", (3, n), [[2], [0], [2]]) for n in LENGTHS),
    look_up("take_along_axis", lambda x, **_: x, "of-scalar", (), -1),
    Case(
        "scatter",
        {"x": Random(()), "index": Values(0, "int64"), "updates": Random(())},
        lambda x, updates, **_: x + updates,
        {"axis": -1, "reduction": "add"},
        label="of-scalar",
    ),
    *(
        look_up("take_along_axis", take_along_axis, label, x, index, **options)
        for label, x, index, options in (
            ("last", (2, 3), [[0, 2, 2, -1], [1, 1, 0, -3]], {}),
            ("first", (4, 3), [[0, 1, -1], [3, 3, 3]], {"attrs": {"axis": 0}}),
            ("middle", (2, 3, 4), below((2, 5, 4), 3), {"attrs": {"axis": 1}}),
            ("x-repeated", (1, 3), [[0, 2], [1, -1]], {"kind": "int32"}),
            ("index-repeated", (4, 3), [[2, 0]], {}),
            ("both-repeated", (1, 3, 4), below((2, 2, 1), 3), {"attrs": {"axis": 1}}),
            ("x-repeated-behind", (3, 1), below((5, 4), 3), {"attrs": {"axis": 0}}),
            ("vector", (5,), [4, 4, 0], {}),
            ("none", (4, 3), np.zeros((4, 0), int), {}),
            ("empty", (0, 3), np.zeros((0, 2), int), {}),
            ("long", (3, 40), below((3, 90), 40), {}),
            ("wide", (5, 70), below((9, 70), 5), {"attrs": {"axis": 0}}),
            ("dtypes", (2, 3), [[1, -1], [0, 2]], {"dtypes": EVERY, "no_grad": WHOLE}),
        )
    ),
    *(
        look_up("take_along_axis", take_along_axis, f"width-{n}", (2, 9), below((2, n), 9))
        for n in LENGTHS
    ),
    *(
        written(
            "scatter", f"{label}-{how}", x, index, updates, attrs={"axis": axis, "reduction": how}
        )
        for how in COMBINE
        for label, x, index, updates, axis in (
            ("first", (4, 3), [[0, 1, -1], [3, 1, 0]], (2, 3), 0),
            ("last", (2, 5), [[0, 2, 0], [1, 1, 1]], (2, 3), -1),
            ("shorter", (3, 4, 5), below((2, 6, 3), 4), (2, 6, 3), 1),
            ("vector", (4,), [3, -1, 0, 3], (4,), 0),
            ("long", (30,), below((90,), 30), (90,), 0),
            ("none", (4, 3), np.zeros((0, 3), int), (0, 3), 0),
        )
    ),
    *(
        written("scatter_nd", f"{label}-{how}", x, index, updates, attrs={"reduction": how})
        for how in COMBINE
        for label, x, index, updates in (
            ("rows", (4, 3), [[1], [-1], [1]], (3, 3)),
            ("elements", (4, 3), [[1, 2], [3, -1], [1, -1]], (3,)),
            ("matrix", (2, 3, 4), [[[0, 1]], [[1, -1]]], (2, 1, 4)),
            ("one", (4, 3), [2], (3,)),
            ("long", (9, 33), below((50, 1), 9), (50, 33)),
            ("none", (4, 3), np.zeros((0, 2), int), (0,)),
        )
    ),
    written("scatter", "empty", (0, 3), np.zeros((0, 3), int), (0, 3)),
    written("scatter_nd", "empty", (0, 3), np.zeros((0, 1), int), (0, 3)),
    written("scatter", "int32", (4, 3), [[0, 1, -1]], (1, 3), "int32"),
    *(
        written(
            op,
            f"dtypes-{how}",
            (4, 3),
            index,
            updates,
            attrs={"reduction": how},
            dtypes=NUMBERS if how in REDUCED else EVERY,
            no_grad=WHOLE,
        )
        for how in COMBINE
        for op, index, updates in (
            ("scatter", [[0, 1, -1], [3, 1, 0], [3, 2, 0]], (3, 3)),
            ("scatter_nd", [[1], [-1], [1]], (3, 3)),
        )
    ),
    Case(
        "scatter",
        TIES,
        scatter,
        {"reduction": "max"},
        WIDE,
        "ties",
        no_grad="equal or undefined elements",
        gradients=shared,
        out_grad=[6.0, -6.0, 2.0, 8.0],
    ),
    Case(
        "scatter",
        {
            "x": Values([0.0, 2.0]),
            "index": Values([0, 0, 1, 1], "int64"),
            "updates": Values([3.0, 5.0, 0.0, 7.0]),
        },
        scatter,
        {"reduction": "mul"},
        label="zeros",
        gradients=lambda x, index, updates, out_grad, **_: (
            np.array([15.0, 0.0]),
            np.array([0.0, 0.0, 14.0, 0.0]),
        ),
    ),
    Case(
        "scatter",
        {"x": Values([1.0, 2.0]), "index": Values([0, 0], "int64"), "updates": Values([3.0, 5.0])},
        scatter,
        label="the-last-stays",
        gradients=lambda x, index, updates, out_grad, **_: (
            np.array([0.0, 7.0]),
            np.array([0.0, np.inf]),
        ),
        out_grad=[np.inf, 7.0],
    ),
)
