"""Cases of searchsorted, bincount and histogram."""

from __future__ import annotations

from typing import Any

import numpy as np
from case import FLOATS, INTS, LENGTHS, WIDE, Array, Case, Random, Source, Values

INF, NAN = np.inf, np.nan


def searchsorted(x: Array, values: Array, side: str = "left") -> Array:
    def is_before(element: float, value: float) -> bool:
        if element != element:
            return side == "right" and value != value
        less = value != value or element < value
        return less or (side == "right" and element == value)

    line = x.tolist()
    places = [sum(is_before(e, v) for e in line) for v in values.reshape(-1).tolist()]
    return np.array(places, np.int64).reshape(values.shape)


def search(label: str, x: Source, values: Source, side: str = "left", **options: Any) -> Case:
    return Case(
        "searchsorted",
        {"x": x, "values": values},
        searchsorted,
        {"side": side},
        label=f"{label}-{side}",
        no_grad="its result is positions",
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
    *(count(f"length-{n}", Random((n,), 0, 4), 5) for n in LENGTHS),
    count("one-id", Random((9,), 0, 0), 1),
    *(count(f"weights-{n}", Random((n,), 0, 4, dtype="int64"), 6, Random((n,))) for n in (0, 1, 9)),
    *(spread(f"length-{n}", Random((n,), -2, 2)) for n in LENGTHS),
    spread("edges", Values([-1.0, -0.75, -0.5, 1.25, 1.5, 1.75, -1.25, 0.0]), FLOATS),
    spread("whole", Random((4, 30), -3, 5), INTS, bins=4, min=0.0, max=4.0),
    spread("special", Values([[NAN, INF, -INF], [0.0, -0.0, 1.5]]), FLOATS, bins=3),
    spread("one-bin", Random((9,)), bins=1),
)
