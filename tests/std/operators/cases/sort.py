"""Test cases of sort, argsort and unique."""

from __future__ import annotations

from typing import Any

import numpy as np
from case import FLOATS, INTS, LENGTHS, WIDE, Array, Case, Random, Source, Values


def order(x: Array, axis: int, descending: bool) -> Array:
    """Return the indices that sort along an axis, by Python's stable sort; NaN is the greatest."""

    def rank(line: Array) -> Array:
        keys = [(number != number, 0.0 if number != number else number) for number in line.tolist()]
        turn = -1 if descending else 1
        return np.array(
            sorted(range(len(keys)), key=lambda i: tuple(turn * part for part in keys[i])), np.int64
        )

    if x.size == 0 or x.ndim == 0:
        return np.zeros(x.shape, np.int64)
    return np.apply_along_axis(rank, axis, x)


def sort(x: Array, axis: int = -1, descending: bool = False) -> tuple[Array, Array]:
    places = order(x, axis, descending)
    return (np.take_along_axis(x, places, axis) if x.ndim else x), places


def argsort(x: Array, axis: int = -1, descending: bool = False) -> Array:
    return order(x, axis, descending)


def cases(op: str) -> list[Case]:
    """Return the test cases of sort or argsort."""
    function = sort if op == "sort" else argsort

    def case(label: str, x: Source, reason: str = "", **options: Any) -> Case:
        why = reason or ("" if op == "sort" else "its result is indices")
        return Case(op, {"x": x}, function, label=label, ulps=0, no_grad=why, **options)

    special = Values([[1.0, np.nan, -0.0, 0.0, np.inf, -np.inf, np.nan, -1.0]] * 2)
    grid = Random((3, 4, 5), distinct=True)
    return [
        *(case(str(n), Random((n,), distinct=True), dtypes=FLOATS) for n in LENGTHS),
        *(
            case(
                f"axis-{axis}{'-down' if down else ''}",
                grid,
                attrs={"axis": axis, "descending": down},
            )
            for axis in (0, 1, -1)
            for down in (False, True)
        ),
        *(
            case(f"special-{down}", special, "equal", attrs={"descending": down}, dtypes=FLOATS)
            for down in (False, True)
        ),
        case("ties", Random((4, 300), 0, 5), "equal", dtypes=INTS),
        case("bool", Random((2, 9)), "equal", dtypes=("bool",)),
        case("ties-down", Random((300,), -5, 5), "equal", dtypes=INTS, attrs={"descending": True}),
        case("wide", Random((300,), -1000, 1000), "whole", dtypes=("int16", "int32", "uint64")),
        case("columns", Random((70, 3), -2, 2), "long", attrs={"axis": 0}),
        case("empty", Random((0, 4))),
        case("empty-axis", Random((4, 0))),
        case("scalar", Random(()), dtypes=FLOATS),
    ]


def unique(x: Array) -> tuple[Array, Array, Array, Array]:
    flat = x.reshape(-1).tolist()
    values = sorted({number for number in flat if number == number})
    values += [np.nan] * any(number != number for number in flat)

    def is_same(a: float, b: float) -> bool:
        return a == b or (a != a and b != b)

    where = [[i for i, number in enumerate(flat) if is_same(number, value)] for value in values]
    inverse = np.zeros(len(flat), np.int64)
    for k, places in enumerate(where):
        inverse[places] = k
    first = np.array([places[0] for places in where], np.int64)
    counts = np.array([len(places) for places in where], np.int64)
    return np.array(values, x.dtype), first, inverse.reshape(x.shape), counts


def different_slices(x: Array, axis: int) -> tuple[Array, Array, Array, Array]:
    slices = np.moveaxis(x, axis, 0)
    keys = [tuple((n != n, 0 if n != n else n) for n in part.reshape(-1)) for part in slices]
    kept = sorted(set(keys))
    first = np.array([keys.index(key) for key in kept], np.int64)
    inverse = np.array([kept.index(key) for key in keys], np.int64)
    counts = np.array([keys.count(key) for key in kept], np.int64)
    return x.take(first, axis), first, inverse, counts


def different(
    label: str, x: Source, dtypes: tuple[str, ...] = WIDE, axis: int | None = None
) -> Case:
    reason = "it is not continuous"
    outputs = {"index": 1, "inverse": 1, "counts": 1}
    attrs = {} if axis is None else {"axis": axis}
    expected = unique if axis is None else different_slices
    return Case("unique", {"x": x}, expected, attrs, dtypes, label, outputs=outputs, no_grad=reason)


CASES = (
    *cases("sort"),
    *cases("argsort"),
    different("numbers", Values([3, 1, 3, 2, 1, 1]), (*FLOATS, *INTS)),
    different("matrix", Random((4, 9), 0, 5), INTS),
    different("bool", Random((2, 9)), ("bool",)),
    different("special", Values([np.nan, 1.0, np.inf, np.nan, -np.inf, 1.0])),
    different("empty", Random((0, 3))),
    different("scalar", Random(())),
    different("rows", Random((40, 2), 0, 3), (*FLOATS, *INTS), 0),
    different("columns", Values([[3, 1, 3, 1], [2, 0, 2, -1]]), (*FLOATS, "int32"), 1),
    different("slices", Random((2, 9, 2), 0, 1), (*INTS, "bool"), -2),
    different("rows-special", Values([[np.nan, 1], [1, np.nan], [np.nan, 1.0], [0, 1]]), axis=0),
    different("no-rows", Random((0, 3)), axis=0),
    different("rows-without-elements", Random((3, 0)), axis=0),
    different("one-axis", Values([3, 1, 3, 2, 1, 1]), axis=0),
)
