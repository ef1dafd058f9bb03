"""Test cases of stack, unstack, tile, flip, roll, triu, tril and slice_scatter.

The references compute element by element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from case import FLOATS, INTS, LENGTHS, WIDE, Array, Case, Random
from cases.movement import from_positions

EVERY = (*FLOATS, *INTS, "bool")
FAR = 2**63 - 1
WHOLE = "covered by the cases in floats only"


def case(op: str, expected: Callable[..., Any], label: str, x: Any, **options: Any) -> Case:
    return Case(op, {"x": x}, expected, label=label, **options)


def typed(op: str, expected: Callable[..., Any], x: Any, **options: Any) -> Case:
    return case(op, expected, "dtypes", x, dtypes=EVERY, no_grad=WHOLE, **options)


def stack(x: list[Array], axis: int = 0) -> Array:
    axis %= x[0].ndim + 1
    shape = [*x[0].shape[:axis], len(x), *x[0].shape[axis:]]
    return from_positions(shape, lambda *at: x[at[axis]][(*at[:axis], *at[axis + 1 :])])


def unstack(x: Array, axis: int = 0, **_: Any) -> tuple[list[Array]]:
    axis %= x.ndim
    return ([x[(slice(None),) * axis + (i,)] for i in range(x.shape[axis])],)


def tile(x: Array, repeats: Sequence[int]) -> Array:
    rank = max(x.ndim, len(repeats))
    whole = x.reshape((1,) * (rank - x.ndim) + x.shape)
    times = [1] * (rank - len(repeats)) + list(repeats)
    shape = [n * by for n, by in zip(whole.shape, times, strict=True)]

    def find(*at: int) -> Any:
        return whole[tuple(i % n for i, n in zip(at, whole.shape, strict=True))]

    return from_positions(shape, find)


def flip(x: Array, axis: Sequence[int] = ()) -> Array:
    turned = {a % x.ndim for a in axis} if axis else set(range(x.ndim))

    def find(*at: int) -> Any:
        return x[tuple(x.shape[d] - 1 - i if d in turned else i for d, i in enumerate(at))]

    return from_positions(x.shape, find)


def roll(x: Array, shift: Sequence[int], axis: Sequence[int] = ()) -> Array:
    if not axis:
        line = x.ravel()
        return from_positions(line.shape, lambda i: line[(i - shift[0]) % line.size]).reshape(
            x.shape
        )
    by = dict(zip((a % x.ndim for a in axis), shift, strict=True))

    def find(*at: int) -> Any:
        return x[tuple((i - by.get(d, 0)) % x.shape[d] for d, i in enumerate(at))]

    return from_positions(x.shape, find)


def triu(x: Array, k: int = 0) -> Array:
    return from_positions(x.shape, lambda *at: x[at] if at[-1] >= at[-2] + k else 0)


def tril(x: Array, k: int = 0) -> Array:
    return from_positions(x.shape, lambda *at: x[at] if at[-1] <= at[-2] + k else 0)


def slice_scatter(x: Array, updates: Array, **attrs: Any) -> Array:
    out = x.copy()
    places = [list(range(n)) for n in x.shape]
    steps = attrs.get("steps") or [1] * len(attrs["axes"])
    lists = zip(attrs["axes"], attrs["starts"], attrs["ends"], steps, strict=True)
    for axis, start, end, step in lists:
        places[axis] = places[axis][start:end:step]
    for at in np.ndindex(*updates.shape):
        out[tuple(p[i] for p, i in zip(places, at, strict=True))] = updates[at]
    return out


def scattered(
    label: str, x: Sequence[int], updates: Sequence[int], *lists: Any, **how: Any
) -> Case:
    names = ("axes", "starts", "ends", "steps")
    attrs = {name: list(numbers) for name, numbers in zip(names, lists, strict=False)}
    inputs = {"x": Random(tuple(x)), "updates": Random(tuple(updates))}
    return Case("slice_scatter", inputs, slice_scatter, attrs, label=label, **how)


def parts(count: int, *shape: int) -> list[Random]:
    return [Random(shape)] * count


CASES = (
    case("stack", stack, "rows", parts(3, 2, 4)),
    case("stack", stack, "last", parts(2, 3, 4), attrs={"axis": -1}),
    case("stack", stack, "middle", parts(3, 2, 4), attrs={"axis": 1}),
    case("stack", stack, "one", parts(1, 5)),
    case("stack", stack, "numbers", parts(4)),
    case("stack", stack, "empty", parts(2, 0, 3), attrs={"axis": 1}),
    *(case("stack", stack, f"width-{n}", parts(2, n), attrs={"axis": 1}) for n in LENGTHS),
    typed("stack", stack, parts(3, 9), attrs={"axis": 1}),
    case("unstack", unstack, "rows", Random((3, 4)), outputs={"out": 3}),
    case("unstack", unstack, "last", Random((2, 3, 4)), attrs={"axis": -1}, outputs={"out": 4}),
    case("unstack", unstack, "num", Random((2, 3)), attrs={"num": 2}, outputs={"out": 2}),
    case("unstack", unstack, "one", Random((1, 3)), outputs={"out": 1}),
    case("unstack", unstack, "numbers", Random((5,)), outputs={"out": 5}),
    case("unstack", unstack, "empty", Random((2, 0)), outputs={"out": 2}),
    typed("unstack", unstack, Random((9, 2)), attrs={"axis": 1, "num": 2}, outputs={"out": 2}),
    case("tile", tile, "both", Random((2, 3)), attrs={"repeats": [2, 3]}),
    case("tile", tile, "rows", Random((2, 3)), attrs={"repeats": [4, 1]}),
    case("tile", tile, "columns", Random((2, 3)), attrs={"repeats": [1, 2]}),
    case("tile", tile, "more-axes", Random((3,)), attrs={"repeats": [2, 1, 2]}),
    case("tile", tile, "fewer-axes", Random((2, 3, 4)), attrs={"repeats": [2]}),
    case("tile", tile, "once", Random((2, 3)), attrs={"repeats": [1, 1]}),
    case("tile", tile, "no-repeats", Random((2, 3)), attrs={"repeats": []}),
    case("tile", tile, "nothing", Random((2, 3)), attrs={"repeats": [0, 2]}),
    case("tile", tile, "scalar", Random(()), attrs={"repeats": [3, 2]}),
    case("tile", tile, "empty", Random((0, 2)), attrs={"repeats": [2, 2]}),
    *(case("tile", tile, f"width-{n}", Random((n,)), attrs={"repeats": [3]}) for n in LENGTHS),
    typed("tile", tile, Random((3, 9)), attrs={"repeats": [2, 2]}),
    case("flip", flip, "all", Random((2, 3, 4))),
    case("flip", flip, "last", Random((2, 3, 4)), attrs={"axis": [-1]}),
    case("flip", flip, "first", Random((3, 4)), attrs={"axis": [0]}),
    case("flip", flip, "two", Random((2, 3, 4)), attrs={"axis": [0, 2]}),
    case("flip", flip, "scalar", Random(())),
    case("flip", lambda x, axis: x, "scalar-axis", Random(()), attrs={"axis": [-1]}),
    case("roll", lambda x, **_: x, "scalar-axis", Random(()), attrs={"shift": [2], "axis": [0]}),
    case("flip", flip, "empty", Random((0, 3))),
    *(case("flip", flip, f"width-{n}", Random((2, n)), attrs={"axis": [1]}) for n in LENGTHS),
    typed("flip", flip, Random((3, 40)), attrs={"axis": [1]}),
    case("roll", roll, "flat", Random((3, 4)), attrs={"shift": [5]}),
    case("roll", roll, "back", Random((3, 4)), attrs={"shift": [-1], "axis": [1]}),
    case("roll", roll, "first", Random((3, 4)), attrs={"shift": [1], "axis": [0]}),
    case("roll", roll, "both", Random((3, 4)), attrs={"shift": [2, -1], "axis": [-1, 0]}),
    case("roll", roll, "round", Random((3, 4)), attrs={"shift": [8], "axis": [1]}),
    case("roll", roll, "far", Random((3, 4)), attrs={"shift": [FAR], "axis": [0]}),
    case("roll", roll, "scalar", Random(()), attrs={"shift": [3]}),
    case("roll", roll, "empty", Random((0, 3)), attrs={"shift": [1], "axis": [0]}),
    typed("roll", roll, Random((3, 9)), attrs={"shift": [2], "axis": [1]}),
    *(
        case(op, reference, f"{label}-{k}", Random(shape), attrs={"k": k})
        for op, reference in (("triu", triu), ("tril", tril))
        for label, shape in (("wide", (3, 5)), ("high", (2, 5, 3)))
        for k in (-5, -4, -1, 0, 1, 2, 5)
    ),
    case("triu", triu, "far", Random((2, 2)), attrs={"k": 2**62}),
    case("tril", tril, "far", Random((2, 2)), attrs={"k": -(2**62)}),
    case("triu", triu, "empty", Random((0, 3))),
    case("tril", tril, "empty", Random((3, 0))),
    typed("triu", triu, Random((9, 9))),
    typed("tril", tril, Random((9, 9))),
    scattered("rows", (5, 3), (3, 3), [0], [1], [4]),
    scattered("both", (5, 6), (3, 3), [0, 1], [1, 2], [4, 5]),
    scattered("steps", (9, 3), (3, 3), [0], [1], [8], [3]),
    scattered("backwards", (7, 3), (4, 3), [0], [-1], [-FAR], [-2]),
    scattered("nothing", (5, 3), (0, 3), [0], [3], [3]),
    scattered("everything", (5, 3), (5, 3), [], [], []),
    scattered("empty", (0, 3), (0, 3), [0], [0], [2]),
    scattered("dtypes", (3, 40), (3, 20), [1], [1], [40], [2], dtypes=EVERY, no_grad=WHOLE),
    *(
        case(
            op,
            reference,
            "gradients",
            Random((2, 2)),
            gradients=gradient,
            out_grad=np.inf,
            dtypes=WIDE,
        )
        for op, reference, gradient in (
            ("triu", triu, lambda x, out_grad: triu(out_grad)),
            ("tril", tril, lambda x, out_grad: tril(out_grad)),
        )
    ),
)
