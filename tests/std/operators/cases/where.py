"""Test cases of where and add_n."""

from __future__ import annotations

import numpy as np
from case import FLOATS, INTS, LENGTHS, Array, Case, Random, Values


def pick(condition: Array, x: Array, y: Array) -> Array:
    condition, x, y = np.broadcast_arrays(condition, x, y)
    out = [a if c else b for c, a, b in zip(condition.flat, x.flat, y.flat, strict=True)]
    return np.array(out, x.dtype).reshape(x.shape)


def case(label: str, *shapes: tuple[int, ...], dtypes: tuple[str, ...] = FLOATS) -> Case:
    condition, x, y = shapes
    return Case(
        "where",
        {"condition": Random(condition, dtype="bool"), "x": Random(x), "y": Random(y)},
        pick,
        dtypes=dtypes,
        label=label,
        no_grad="" if dtypes == FLOATS else "no floats",
    )


def added(label: str, shape: tuple[int, ...], count: int, dtypes: tuple[str, ...] = FLOATS) -> Case:
    return Case(
        "add_n",
        {"x": [Random(shape)] * count},
        lambda x: (
            np.array([sum(numbers) for numbers in zip(*[a.flat for a in x], strict=True)])
            .astype(x[0].dtype)
            .reshape(shape)
        ),
        dtypes=dtypes,
        label=label,
        terms=count,
        magnitude=2.0 * count,
        no_grad="" if dtypes == FLOATS else "no floats",
    )


CASES = (
    *(case(str(n), (n,), (n,), (n,)) for n in LENGTHS),
    case("integers", (9,), (9,), (9,), dtypes=(*INTS, "bool")),
    case("condition-row", (4,), (3, 4), (3, 4)),
    case("scalars", (3, 4), (), ()),
    case("one-scalar", (3, 4), (3, 4), ()),
    case("all-broadcast", (3, 1, 1), (4, 1), (5,)),
    case("wide-condition", (2, 3, 4), (4,), (3, 1)),
    Case(
        "where",
        {
            "condition": Values([True, False, True, False], "bool"),
            "x": Values([np.nan, np.nan, np.inf, 1.0]),
            "y": Values([1.0, 2.0, np.nan, -np.inf]),
        },
        pick,
        label="special",
        no_grad="infinite there",
    ),
    *(added(str(n), (n,), 3) for n in LENGTHS),
    added("one", (3, 5), 1),
    added("two", (3, 5), 2),
    added("scalars", (), 4),
    added("many", (2, 3), 9),
    added("integers", (9,), 3, INTS),
)
