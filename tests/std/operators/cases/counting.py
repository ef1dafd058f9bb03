"""Test cases of searchsorted, bincount and histogram."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from case import FLOATS, INTS, LENGTHS, WIDE, Array, Case, Random, Source, Values

INF, NAN = np.inf, np.nan


def searchsorted(
    x: Array, values: Array, side: str = "left", rows: bool = False, dtype: str = "int64"
) -> Array:
    if rows:
        found = np.zeros(values.shape, dtype)
        for row in np.ndindex(x.shape[:-1]):
            found[row] = searchsorted(x[row], values[row], side)
        return found

    def is_before(element: float, value: float) -> bool:
        if element != element:
            return side == "right" and value != value
        less = value != value or element < value
        return less or (side == "right" and element == value)

    line = x.tolist()
    places = [sum(is_before(e, v) for e in line) for v in values.reshape(-1).tolist()]
    return np.array(places, dtype).reshape(values.shape)


def search(
    label: str,
    x: Source,
    values: Source,
    side: str = "left",
    attrs: Mapping[str, Any] | None = None,
    **options: Any,
) -> Case:
    return Case(
        "searchsorted",
        {"x": x, "values": values},
        searchsorted,
        {"side": side, **(attrs or {})},
        label=f"{label}-{side}",
        no_grad="its result is indices",
        **options,
    )


def bincount(x: Array, weights: Array | None = None, length: int = 0) -> Array:
    parts = np.ones(len(x), np.int64) if weights is None else weights
    out = [parts[x == i].sum() for i in range(length)]
    return np.array(out, parts.dtype)


def count(label: str, x: Source, length: int, weights: Source | None = None) -> Case:
    if weights is None:
        dtypes, inputs = ("int32", "int64"), {"x": x}
    else:
        dtypes, inputs = FLOATS, {"x": x, "weights": weights}
    attrs = {"length": length}
    return Case("bincount", inputs, bincount, attrs, dtypes, label, terms=9, magnitude=4.0)


def histogram(x: Array, bins: int = 10, min: float = 0.0, max: float = 1.0) -> Array:
    edges = [min + (max - min) * i / bins for i in range(bins)] + [max]
    counts = np.zeros(bins, np.int64)
    for number in x.reshape(-1).tolist():
        for i in range(bins):
            is_last = i == bins - 1 and number == max
            counts[i] += edges[i] <= number < edges[i + 1] or is_last
    return counts


def spread(label: str, x: Source, dtypes: tuple[str, ...] = WIDE, **attrs: Any) -> Case:
    given = {"min": -1.0, "max": 1.5, **attrs}
    reason = "its result is counts"
    return Case("histogram", {"x": x}, histogram, given, dtypes, label, no_grad=reason)


RISING = Values([-1.5, -1.0, -1.0, 0.0, 0.5, 0.5, 0.5, 2.0])
WHOLE = Values([0, 1, 1, 1, 2, 4, 4, 9])
ROWS = Values(np.sort(np.linspace(-2, 2, 42).reshape(2, 3, 7)[:, ::-1] % 1.7, -1).tolist())
SPECIAL = Values([-INF, -1.0, 0.0, INF, NAN, NAN])

CASES = (
    *(
        made
        for side in ("left", "right")
        for made in (
            search("ties", RISING, Values([[0.5, -1.0, -2.0], [2.0, 3.0, 0.25]]), side),
            search("whole", WHOLE, Random((3, 9), 0, 10), side, dtypes=INTS),
            search("special", SPECIAL, Values([NAN, INF, -INF, -0.0, 1.0]), side, dtypes=FLOATS),
        )
    ),
    *(search(f"length-{n}", Values(list(range(n))), Random((40,), -1, 34)) for n in LENGTHS),
    *(search(f"values-{n}", RISING, Random((n,))) for n in LENGTHS),
    search("number", RISING, Random(())),
    search("empty", Random((0,)), Random((2, 3))),
    *(
        search(label, x, Random((2, 3, n)), side, {"rows": True, "dtype": dtype})
        for label, x, n, side, dtype in (
            ("rows", ROWS, 5, "left", "int64"),
            ("rows-int32", ROWS, 9, "right", "int32"),
            ("rows-without-values", ROWS, 0, "left", "int64"),
            ("rows-without-elements", Random((2, 3, 0)), 4, "left", "int64"),
        )
    ),
    search("line-int32", RISING, Random((4, 5)), "right", {"dtype": "int32"}),
    search("line-as-row", RISING, Random((9,)), "left", {"rows": True}),
    *(count(f"length-{n}", Random((n,), 0, 4), 5) for n in LENGTHS),
    count("one-id", Random((9,), 0, 0), 1),
    *(count(f"weights-{n}", Random((n,), 0, 4, dtype="int64"), 6, Random((n,))) for n in (0, 1, 9)),
    *(spread(f"length-{n}", Random((n,), -2, 2)) for n in LENGTHS),
    spread("edges", Values([-1.0, -0.75, -0.5, 1.25, 1.5, 1.75, -1.25, 0.0]), FLOATS),
    spread("whole", Random((4, 30), -3, 5), INTS, bins=4, min=0.0, max=4.0),
    spread("special", Values([[NAN, INF, -INF], [0.0, -0.0, 1.5]]), FLOATS, bins=3),
    spread("one-bin", Random((9,)), bins=1),
)
