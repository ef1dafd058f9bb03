"""Test cases of the running sums and products."""

from __future__ import annotations

from typing import Any

import numpy as np
from case import FLOATS, INTS, LENGTHS, WIDE, Array, Case, Random, Source, Values

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
    """Return the test cases of cumsum or cumprod."""
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
        case(op, "integers", Random((3, 7), -9, 9), 1, dtypes=INTS, no_grad="integers"),
        case(op, "bool", Random((9,)), dtypes=("bool",), no_grad="no floats"),
    ]


def extrema(op: str) -> Any:
    """Return the running extremum and its position; of equal elements, the last position counts."""

    def expected(x: Array, axis: int) -> tuple[Array, Array]:
        lines = np.moveaxis(np.atleast_1d(x), axis, -1)
        out, indices = np.empty_like(lines), np.empty(lines.shape, np.int64)
        for place in np.ndindex(lines.shape[:-1]):
            best = 0
            for i, number in enumerate(lines[place]):
                top = lines[place][best]
                is_new = number >= top if op == "cummax" else number <= top
                best = i if is_new or number != number else best
                out[place][i], indices[place][i] = lines[place][best], best
        return tuple(np.moveaxis(a, -1, axis).reshape(x.shape) for a in (out, indices))

    return expected


def log_sums(x: Array, axis: int, reverse: bool = False) -> Array:
    lines = np.moveaxis(np.atleast_1d(x), axis, -1)
    lines = lines[..., ::-1] if reverse else lines
    out = np.array([np.logaddexp.reduce(lines[..., : i + 1], -1) for i in range(lines.shape[-1])])
    out = np.moveaxis(out.reshape(lines.shape[-1], *lines.shape[:-1]), 0, -1)
    return np.moveaxis(out[..., ::-1] if reverse else out, -1, axis).reshape(x.shape)


def log_sums_grad(x: Array, axis: int, out_grad: Array, reverse: bool = False) -> Array:
    """Return the gradient of rows; an element of minus infinity adds nothing to a sum."""
    out = log_sums(x, axis, reverse)
    n = np.arange(x.shape[1])
    is_later = n[:, None] >= n if reverse else n[:, None] <= n
    share = np.exp(x[:, :, None] - out[:, None, :])
    share = np.where(is_later & ~np.isneginf(x[:, :, None]), share, 0)
    return np.asarray((share * out_grad[:, None, :]).sum(2))


TIES = Values([[2, 2, 1, 3, 3, 0], [1, 0, 0, 2, 1, 2]])
WAYS = {"last": ((3, 9), -1), "first": ((5, 33), 0), "middle": ((2, 4, 3), 1), "empty": ((0, 3), 1)}
INFINITE = Values([[1.0, INF, 2.0, INF, -INF], [-INF, 3.0, -INF, -90.0, 5.0]])
FAR = Values([[-INF, -INF, -800.0, 3.0, 700.0], [5.0, -INF, 2.0, -90.0, 5.0]])


CASES = (
    *cases("cumsum"),
    *cases("cumprod"),
    *(
        Case(op, {"x": x}, extrema(op), {"axis": axis}, dtypes, label=label, no_grad=reason)
        for op in ("cummax", "cummin")
        for label, x, axis, dtypes, reason in (
            *((w, Random(s, distinct=True), a, FLOATS, "") for w, (s, a) in WAYS.items()),
            ("ties", TIES, 1, (*FLOATS, *INTS), "equal"),
            ("nan", Values([[1.0, NAN, 3.0, NAN], [2.0, INF, -INF, 1.0]]), 1, FLOATS, "infinite"),
            ("scalar", Random(()), 0, FLOATS, ""),
        )
    ),
    *(
        Case(
            "logcumsumexp",
            {"x": x},
            log_sums,
            attrs,
            dtypes,
            label=label,
            no_grad=reason,
            terms=600 if label == "long" else 8,
        )
        for label, x, attrs, dtypes, reason in (
            *((w, Random(s), {"axis": a}, FLOATS, "") for w, (s, a) in WAYS.items()),
            ("reverse", Random((3, 7)), {"axis": 1, "reverse": True}, FLOATS, ""),
            ("long", Random((2, 600), -9, 9), {"axis": 1}, WIDE, "the length does not matter"),
            ("far", FAR, {"axis": 1}, WIDE, "infinite there"),
            ("scalar", Random(()), {"axis": 0}, FLOATS, ""),
        )
    ),
    *(
        Case(
            "logcumsumexp",
            {"x": INFINITE},
            log_sums,
            {"axis": 1, "reverse": reverse},
            WIDE,
            label=f"infinite-{reverse}",
            no_grad="infinite there",
            gradients=log_sums_grad,
            out_grad=[[-1.0, 0.0, 2.0, 0.5, 3.0], [0.25, 0.0, -2.0, 1.0, 1.0]],
        )
        for reverse in (False, True)
    ),
)
