"""Test cases of diff, unique_consecutive, rot90, bucketize and cdist."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from case import FLOATS, INTS, WIDE, Array, Case, Random, Source, Values

INF, NAN = math.inf, math.nan


def diff(
    x: Array,
    prepend: Array | None = None,
    append: Array | None = None,
    n: int = 1,
    axis: int = -1,
) -> Array:
    given = [part for part in (prepend, x, append) if part is not None]
    lines = np.moveaxis(np.concatenate(given, axis), axis, 0)
    for _ in range(n):
        pairs = list(zip(lines[1:], lines[:-1], strict=True))
        if not pairs:
            lines = lines[:0]
            break
        lines = np.array([a != b if x.dtype == bool else a - b for a, b in pairs])
    return np.moveaxis(lines, 0, axis)


def rot90(x: Array, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    turned = np.moveaxis(x, axes, (0, 1))
    for _ in range(k % 4):
        turned = np.array([turned[:, -1 - i] for i in range(turned.shape[1])])
    return np.moveaxis(turned, (0, 1), axes)


def runs(x: Array, axis: int | None = None) -> tuple[Array, Array, Array]:
    lines = x.reshape(-1) if axis is None else np.moveaxis(x, axis, 0)
    firsts, inverse = [], []
    for i, line in enumerate(lines):
        if i == 0 or not np.array_equal(line, lines[i - 1]):
            firsts.append(i)
        inverse.append(len(firsts) - 1)
    counts = [inverse.count(i) for i in range(len(firsts))]
    out = x.reshape(-1)[firsts] if axis is None else np.take(x, np.array(firsts, int), axis)
    shape = x.shape if axis is None else (x.shape[axis],)
    return out, np.array(inverse, int).reshape(shape), np.array(counts, int)


def cdist(x: Array, y: Array, p: float = 2.0) -> Array:
    sizes = np.abs(x[..., :, None, :] - y[..., None, :, :])
    if p == 0:
        return (sizes != 0).sum(-1).astype(float)
    return sizes.max(-1) if p == INF else (sizes**p).sum(-1) ** (1 / p)


def buckets(x: Array, boundaries: Array, side: str = "left", dtype: str = "int64") -> Array:
    edges = boundaries.tolist()
    places = [
        sum(e <= v if side == "right" else e < v for e in edges) for v in x.reshape(-1).tolist()
    ]
    return np.array(places, dtype).reshape(x.shape)


def spaced(start: float, stop: float, num: int, base: float = 10.0, **_: Any) -> Array:
    return np.array([base ** (start + i * (stop - start) / max(num - 1, 1)) for i in range(num)])


def between(op: str, label: str, x: Source, attrs: dict[str, Any], **given: Any) -> Case:
    functions: dict[str, Callable[..., Any]] = {"diff": diff, "rot90": rot90}
    return Case(op, {"x": x}, functions[op], attrs, label=label, **given)


REPEATED = Values([[1, 1, 2, 2], [2, 3, 3, 3], [2, 3, 3, 3]])

CASES = (
    between("diff", "vector", Random((9,)), {}, dtypes=FLOATS),
    between("diff", "middle", Random((3, 4, 2)), {"axis": 1, "n": 2}),
    between("diff", "0", Random((0, 3)), {}),
    between("diff", "none", Random((2, 3)), {"n": 0}),
    between("diff", "short", Random((2, 3)), {"n": 4}),
    between("diff", "integers", Random((9,), -9, 9), {}, dtypes=(*INTS, "bool"), no_grad="whole"),
    Case(
        "diff",
        {"x": Random((2, 3)), "prepend": Random((2, 1)), "append": Random((2, 2))},
        diff,
        label="joined",
    ),
    Case(
        "diff",
        {"x": Random((2, 3)), "prepend": Random((2, 1))},
        lambda x, prepend, n: np.diff(x, n, prepend=prepend),
        {"n": 0},
        label="joined-none",
    ),
    *(between("rot90", str(k), Random((3, 2)), {"k": k}) for k in (0, 1, 2, 3, -1)),
    between("rot90", "empty", Random((0, 3)), {}),
    between("rot90", "axes", Random((3, 2, 4)), {"axes": [2, 0]}, dtypes=(*FLOATS, "int8")),
    *(
        Case(
            "unique_consecutive",
            {"x": x},
            runs,
            attrs,
            (*FLOATS, *INTS),
            label=label,
            outputs={"inverse": 1, "counts": 1},
            no_grad="it is not continuous",
            ulps=0,
        )
        for label, x, attrs in (
            ("flat", REPEATED, {}),
            ("rows", REPEATED, {"axis": 0}),
            ("columns", REPEATED, {"axis": -1}),
            ("empty", Random((0, 3)), {"axis": 0}),
            ("scalar", Random(()), {}),
        )
    ),
    *(
        Case(
            "bucketize",
            {"x": Random(shape), "boundaries": Values([-1.0, 0.0, 0.0, 1.5])},
            buckets,
            {"side": side, "dtype": dtype},
            FLOATS,
            label=f"{side}-{dtype}",
            no_grad="its result is indices",
        )
        for shape, side, dtype in (
            ((3, 4), "left", "int64"),
            ((), "right", "int32"),
            ((0,), "right", "int64"),
        )
    ),
    *(
        Case(
            "cdist",
            {"x": Random(x), "y": Random(y)},
            cdist,
            {"p": p},
            label=str(p),
            terms=8,
            dtypes=FLOATS if p == 2 else WIDE,
        )
        for p, x, y in (
            (2.0, (2, 4, 3), (5, 3)),
            (1.0, (4, 3), (5, 3)),
            (3.0, (4, 3), (2, 3)),
            (INF, (2, 3), (3, 3)),
            (0.0, (2, 3), (3, 3)),
        )
    ),
    Case("cdist", {"x": Random((0, 3)), "y": Random((2, 3))}, cdist, label="empty"),
    *(
        Case(
            "logspace",
            {},
            spaced,
            {"start": -1.0, "stop": 2.0, "num": num, "base": base, "dtype": dtype},
            (dtype,),
            label=f"{num}-{dtype}",
        )
        for num, base, dtype in ((7, 2.0, "float64"), (4, 10.0, "float32"), (0, 10.0, "float32"))
    ),
    *(
        Case(
            "aminmax",
            {"x": Random(shape, distinct=True)},
            lambda x, axis=(), keepdims=False: (
                x.min(axis or None, keepdims=keepdims),
                x.max(axis or None, keepdims=keepdims),
            ),
            {"axis": axis, "keepdims": keepdims},
            (*FLOATS, *INTS),
            label=label,
        )
        for label, shape, axis, keepdims in (
            ("rows", (3, 4), (1,), True),
            ("all", (2, 3), (), False),
            ("0", (0, 3), (1,), False),
        )
    ),
)
