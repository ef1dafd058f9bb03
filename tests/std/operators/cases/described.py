"""Test cases of constant, arange, linspace, eye, shape, size, is_empty, one_hot and multiplex."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from case import FLOATS, INTS, LENGTHS, Array, Case, Random, Values

NO_INPUT = "it has no input"
EVERY = (*FLOATS, *INTS, "bool")


def made(op: str, label: str, expected: Any, **attrs: Any) -> Case:
    """Return a test case of an operator without inputs, with the expected elements."""
    kind = attrs.get("dtype", {"arange": "int64"}.get(op, "float32"))
    return Case(
        op,
        {},
        lambda **_: np.array(expected, np.float64).astype(kind),
        attrs,
        dtypes=("float32",),
        label=label,
        no_grad=NO_INPUT,
    )


def steps(label: str, start: float, stop: float, step: float, dtype: str) -> Case:
    n = max(math.ceil((stop - start) / step), 0)
    numbers = [start + i * step for i in range(n)]
    return made("arange", label, numbers, start=start, stop=stop, step=step, dtype=dtype)


def spaced(label: str, start: float, stop: float, num: int, dtype: str = "float32") -> Case:
    numbers = [start + i * (stop - start) / max(num - 1, 1) for i in range(num)]
    return made("linspace", label, numbers, start=start, stop=stop, num=num, dtype=dtype)


def diagonal(label: str, rows: int, columns: int | None, k: int, dtype: str = "float32") -> Case:
    width = rows if columns is None else columns
    ones = [[float(j - i == k) for j in range(width)] for i in range(rows)]
    attrs: dict[str, Any] = {"n_rows": rows, "k": k, "dtype": dtype}
    if columns is not None:
        attrs["n_cols"] = columns
    expected = np.array(ones).reshape(rows, width)
    return made("eye", label, expected, **attrs)


def given(label: str, values: Sequence[float], shape: list[int], dtype: str = "float32") -> Case:
    expected = np.array(values).reshape(shape)
    return made("constant", label, expected, values=list(values), shape=shape, dtype=dtype)


def one_hot(x: Array, depth: int, dtype: str) -> Array:
    return (x[..., None] == np.arange(depth)).astype(dtype)


def multiplex(index: Array, x: list[Array]) -> Array:
    return np.stack([x[int(which)][row] for row, which in enumerate(index.ravel())])


def rows_of(label: str, index: Any, count: int, shape: tuple[int, ...], **options: Any) -> Case:
    inputs = {"index": Values(index, options.pop("kind", "int64")), "x": [Random(shape)] * count}
    return Case("multiplex", inputs, multiplex, label=label, ulps=0, **options)


CASES = (
    *(
        Case(op, {"x": Random(shape)}, expected, dtypes=EVERY, label=label)
        for op, expected in (
            ("shape", lambda x: np.array(x.shape, np.int64)),
            ("size", lambda x: np.array(x.size)),
            ("is_empty", lambda x: np.array(x.size == 0)),
        )
        for label, shape in (("matrix", (3, 4)), ("empty", (0, 3)), ("scalar", ()), ("one", (1,)))
    ),
    *(given(f"length-{n}", [i / 4 for i in range(n)], [n]) for n in LENGTHS),
    *(given(f"{dtype}", [0.0, 1.0, 1.0, 0.0], [2, 2], dtype) for dtype in EVERY),
    given("scalar", [-3.5], [], "float64"),
    given("long", [float(i) for i in range(600)], [20, 30], "int32"),
    given("special", [math.inf, -math.inf, math.nan, -0.0], [4]),
    *(steps(f"length-{n}", 0.0, float(n), 1.0, "int64") for n in LENGTHS),
    *(steps(f"{dtype}", 3.0, 9.0, 2.0, dtype) for dtype in (*FLOATS, *INTS)),
    steps("backwards", 5.0, -6.0, -3.0, "int32"),
    steps("fractions", 0.5, 2.1, 0.1, "float32"),
    steps("nothing", 3.0, 1.0, 1.0, "float32"),
    steps("large", 2.0**62, 2.0**62 + 2.0**12, 2.0**10, "int64"),
    *(spaced(f"length-{n}", -1.0, 2.0, n) for n in LENGTHS),
    *(spaced(f"{dtype}", 2.0, -1.0, 5, dtype) for dtype in FLOATS),
    spaced("still", 1.5, 1.5, 3),
    *(diagonal(f"square-{k}", 4, None, k) for k in (-5, -1, 0, 2, 4)),
    *(diagonal(f"wide-{k}", 3, 6, k) for k in (-2, 0, 3, 2**62)),
    *(diagonal(f"high-{k}", 6, 3, k) for k in (-4, 0, 1, -(2**62))),
    *(diagonal(f"{dtype}", 3, 4, 1, dtype) for dtype in EVERY),
    diagonal("empty", 0, 3, 0),
    *(
        Case(
            "one_hot",
            {"x": Values([0, 2, 1, 2])},
            one_hot,
            {"depth": 3, "dtype": dtype},
            ("int32", "int64"),
            f"to-{dtype}",
            ulps=0,
        )
        for dtype in EVERY
    ),
    rows_of("rows", [1, 0, 2, 1], 3, (4, 5)),
    rows_of("column", [[1], [0], [0]], 2, (3, 4), kind="int32"),
    rows_of("numbers", [1, 0, 1], 2, (3,)),
    rows_of("one", [0, 0], 1, (2, 3)),
    rows_of("deep", [1, 0], 2, (2, 3, 4)),
    Case(
        "multiplex",
        {"index": Values([], "int64"), "x": [Random((0, 3))] * 2},
        lambda index, x: x[0],
        label="empty",
    ),
    *(rows_of(f"width-{n}", [1, 0], 2, (2, n)) for n in LENGTHS),
    rows_of("dtypes", [1, 0], 2, (2, 3), dtypes=EVERY, no_grad="integers among them"),
)
