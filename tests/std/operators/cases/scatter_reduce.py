"""Test cases of scatter_reduce; the reference computes element by element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from case import FLOATS, LENGTHS, Array, Case, Random, Values

COMBINE = {
    "add": math.fsum,
    "mul": math.prod,
    "max": max,
    "min": min,
    "mean": lambda numbers: math.fsum(numbers) / len(numbers),
}


def scatter_reduce(
    x: Array,
    index: Array,
    updates: Array,
    axis: int = 0,
    reduction: str = "add",
    include_self: bool = True,
) -> Array:
    places: dict[tuple[int, ...], list[Any]] = {}
    for at in np.ndindex(*index.shape):
        place = list(at)
        place[axis] = int(index[at]) % x.shape[axis]
        places.setdefault(tuple(place), []).append(updates[at])
    out = x.copy()
    for place, numbers in places.items():
        mixed = COMBINE[reduction]([x[place], *numbers] if include_self else numbers)
        out[place] = math.floor(mixed) if x.dtype.kind in "iu" else mixed
    return out


def case(label: str, shape: tuple[int, ...], index: Any, **attrs: Any) -> Case:
    places = np.array(index)
    inputs = {
        "x": Random(shape, distinct=True),
        "index": Values(places.tolist(), "int64")
        if places.size
        else Random(places.shape, 0, 0, dtype="int64"),
        "updates": Random(places.shape, -3, 3, distinct=True),
    }
    dtypes = (*FLOATS, "int32", "uint8", "int64")
    label = f"{label}-{'-'.join(map(str, attrs.values()))}"
    return Case(
        "scatter_reduce", inputs, scatter_reduce, attrs, dtypes, label, terms=8, magnitude=4.0
    )


CASES = (
    *(
        case(label, shape, index, axis=axis, reduction=reduction, include_self=include_self)
        for reduction in COMBINE
        for include_self in (True, False)
        for label, shape, index, axis in (
            ("line", (6,), [0, 2, 2, -1, 0, 2], 0),
            ("columns", (3, 4), [[0, 0, 3], [1, 1, 1]], 1),
            ("none", (3, 2), np.zeros((0, 2), int), 0),
        )
    ),
    *(
        case(f"length-{n}", (n,), [i // 2 for i in range(n)], reduction="mean", include_self=False)
        for n in LENGTHS
    ),
)
