"""Test cases of outer, dot, cross, kron, diag and trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from case import FLOATS, INTS, LENGTHS, WIDE, Array, Case, Random, Values

Dims = tuple[int, ...]


def cross(x: Array, y: Array, axis: int = -1) -> Array:
    x, y = np.moveaxis(x, axis, 0), np.moveaxis(y, axis, 0)
    turned = [x[(i + 1) % 3] * y[(i + 2) % 3] - x[(i + 2) % 3] * y[(i + 1) % 3] for i in range(3)]
    return np.moveaxis(np.array(turned), 0, axis)


def by_place(function: Callable[..., Array]) -> Callable[..., Array]:
    """Wrap a NumPy function so that its operands are named x and y."""

    def called(x: Array, y: Array) -> Array:
        return function(x, y)

    return called


FUNCTIONS = {
    "outer": by_place(np.outer),
    "dot": by_place(np.dot),
    "kron": by_place(np.kron),
    "cross": cross,
}


def case(op: str, x: Dims, y: Dims, label: str = "", **options: Any) -> Case:
    label = label or f"{'-'.join(map(str, x)) or 'scalar'} {'-'.join(map(str, y)) or 'scalar'}"
    inputs = {"x": Random(x), "y": Random(y)}
    options = {"terms": 60, "magnitude": 12.0, "dtypes": FLOATS, **options}
    if "int32" in options["dtypes"]:
        options["no_grad"], label = "integers", f"{label}-whole"
    return Case(op, inputs, FUNCTIONS[op], label=label, **options)


def diag(x: Array, k: int = 0) -> Array:
    if x.ndim == 1:
        return np.array(
            [
                [x[min(i, j)] if j - i == k else 0 for j in range(len(x) + abs(k))]
                for i in range(len(x) + abs(k))
            ],
            x.dtype,
        ).reshape(len(x) + abs(k), len(x) + abs(k))
    rows, columns = x.shape
    return np.array([x[i, i + k] for i in range(rows) if 0 <= i + k < columns], x.dtype)


def trace(x: Array, k: int = 0) -> Array:
    places = np.ndindex(x.shape[:-2])
    return np.array([diag(x[place], k).sum() for place in places]).reshape(x.shape[:-2])


def along(op: str, shape: Dims, k: int = 0, dtypes: tuple[str, ...] = FLOATS) -> Case:
    label = f"{'-'.join(map(str, shape))} {k}"
    reason = "integers" if "int32" in dtypes else ""
    function = diag if op == "diag" else trace
    return Case(
        op,
        {"x": Random(shape)},
        function,
        {"k": k},
        label=f"{label}-whole" if reason else label,
        dtypes=dtypes,
        no_grad=reason,
        terms=10,
        magnitude=4.0,
    )


MATRICES: tuple[Dims, ...] = ((4, 4), (3, 5), (5, 3), (1, 1))

CASES = (
    *(case("outer", (n,), (5,)) for n in LENGTHS),
    case("outer", (2, 3), (4, 1)),
    case("outer", (), (3,)),
    case("outer", (3,), (4,), dtypes=INTS),
    *(case("dot", (n,), (n,)) for n in LENGTHS),
    case("dot", (), (3,)),
    case("dot", (3, 4), ()),
    case("dot", (3, 4), (4,)),
    case("dot", (2, 3, 4), (4, 5)),
    case("dot", (4,), (2, 4, 3)),
    case("dot", (2, 4), (3, 4, 5)),
    case("dot", (5,), (5,), dtypes=INTS),
    *(case("cross", (n, 3), (n, 3)) for n in LENGTHS),
    case("cross", (3, 4), (3, 1), "axis", attrs={"axis": 0}),
    case("cross", (2, 3), (2, 3), dtypes=("int8", "int32", "int64")),
    case("kron", (3,), (4,)),
    case("kron", (2, 3), (4, 5)),
    case("kron", (2,), (3, 2)),
    case("kron", (1, 2, 3), (2, 1)),
    case("kron", (), ()),
    case("kron", (), (3,)),
    case("kron", (0, 2), (3, 2)),
    case("kron", (2, 2), (2, 3), dtypes=INTS),
    *(along("diag", (n,), k) for n in (0, 1, 7) for k in (0, 2, -1)),
    *(along(op, shape, k) for op in ("diag", "trace") for shape in MATRICES for k in (0, 1, -2)),
    *(along(op, (4, 3), 9) for op in ("diag", "trace")),
    along("diag", (3, 3), 0, (*INTS, "bool")),
    along("diag", (4,), 1, ("bool",)),
    along("trace", (2, 3, 3), 1),
    along("trace", (0, 3, 3)),
    along("trace", (3, 0)),
    along("trace", (3, 3), 0, ("int32", "int64")),
    Case(
        "diag",
        {"x": Values([np.inf, np.nan, -1.0])},
        diag,
        label="special",
        dtypes=WIDE,
        no_grad="infinities",
    ),
)
