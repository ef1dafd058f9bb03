"""Cases of the running sums and products."""

from __future__ import annotations

from typing import Any

import numpy as np
from case import FLOATS, INTS, LENGTHS, Array, Case, Random, Source, Values

INF, NAN = np.inf, np.nan


def running(op: str, x: Array, axis: int, exclusive: bool = False, reverse: bool = False) -> Array:
    """Return the running sum or product, element by element."""
    lines = np.moveaxis(np.atleast_1d(x), axis, -1)
    out = np.empty(lines.shape, x.dtype if x.dtype.kind == "f" else np.int64)
    if x.dtype.kind == "u":
        out = out.astype(np.uint64)
    n = lines.shape[-1]
    for place in np.ndindex(*lines.shape[:-1]):
        total = 0 if op == "cumsum" else 1
        for i in reversed(range(n)) if reverse else range(n):
            number = lines[place][i].item()
            joined = total + number if op == "cumsum" else total * number
            out[place][i] = total if exclusive else joined
            total = joined
    return np.moveaxis(out, -1, axis).reshape(x.shape)


def case(op: str, label: str, x: Source, axis: int = 0, **options: Any) -> Case:
    attrs = {"axis": axis, **options.pop("attrs", {})}

    def expected(x: Array, **attrs: Any) -> Array:
        return running(op, x, **attrs)

    given = {"terms": 60, "magnitude": 8.0, **options}
    return Case(op, {"x": x}, expected, attrs, label=label, **given)


def cases(op: str) -> list[Case]:
    """Return the cases of one of the two."""
    shape = (3, 4, 5)
    turned = [{"exclusive": e, "reverse": r} for e in (False, True) for r in (False, True)]
    special = Values([[1.0, NAN, 2.0, 3.0], [1.0, INF, -INF, 2.0], [INF, 1.0, 0.0, 1.0]])
    return [
        *(case(op, f"{n}", Random((n,)), dtypes=FLOATS) for n in LENGTHS),
        *(
            case(op, f"{axis}-{i}", Random(shape), axis, attrs=attrs)
            for axis in (0, 1, -1)
            for i, attrs in enumerate(turned)
        ),
        *(case(op, f"vector-{i}", Random((7,)), attrs=attrs) for i, attrs in enumerate(turned)),
        case(op, "wide", Random((4, 33)), 0),
        case(op, "long", Random((2, 600), 0.9, 1.1), 1, no_grad="the length does not matter to it"),
        case(op, "special", special, 1, no_grad="infinite there"),
        case(op, "zeros", Values([[2.0, 0.0, 3.0, -1.5], [0.0, 2.0, 0.0, 3.0]]), 1),
        case(op, "scalar", Random(())),
        case(op, "scalar-exclusive", Random(()), -1, attrs={"exclusive": True}),
        case(op, "empty", Random((0, 3)), 1),
        case(op, "empty-axis", Random((2, 0)), 1, attrs={"exclusive": True}),
        case(op, "integers", Random((3, 7), -9, 9), 1, dtypes=INTS, no_grad="whole numbers"),
    ]


CASES = (*cases("cumsum"), *cases("cumprod"))
