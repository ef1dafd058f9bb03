"""Test cases of reductions over unmasked elements, and of reductions that ignore NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from case import FLOATS, INTS, WIDE, Array, Case, Random, Values
from cases.quantile import quantile

INF, NAN = math.inf, math.nan

Numbers = list[float]


def over(function: Callable[..., float]) -> Callable[..., Array]:
    """Return a reduction that applies `function` to the list of unmasked elements."""

    def expected(
        x: Array,
        mask: Array | None = None,
        axis: tuple[int, ...] = (),
        keepdims: bool = False,
        **attrs: Any,
    ) -> Array:
        shown = x == x if mask is None else np.broadcast_to(mask, x.shape)
        axes = [a % x.ndim for a in axis] or list(range(x.ndim))
        kept = [a for a in range(x.ndim) if a not in axes]
        out = np.empty([x.shape[a] for a in kept])
        for place in np.ndindex(out.shape):
            index: list[Any] = [slice(None)] * x.ndim
            for a, i in zip(kept, place, strict=True):
                index[a] = i
            out[place] = function(x[tuple(index)][shown[tuple(index)]].tolist(), **attrs)
        if keepdims:
            out = out.reshape([1 if a in axes else n for a, n in enumerate(x.shape)])
        return out.astype(x.dtype) if x.dtype.kind in "iu" else out

    return expected


def along(function: Callable[[Array], Array], hidden: float) -> Callable[..., Array]:
    """Return a reference that applies `function` along an axis to unmasked elements only."""

    def expected(x: Array, mask: Array, axis: int = -1) -> Array:
        out = np.full(x.shape, hidden)
        lines, shown, to = (
            np.moveaxis(a, axis, -1) for a in (x, np.broadcast_to(mask, x.shape), out)
        )
        for place in np.ndindex(lines.shape[:-1]):
            where = shown[place]
            to[place][where] = function(lines[place][where])
        return out

    return expected


def running(function: Any) -> Callable[..., Array]:
    def expected(
        x: Array, mask: Array, axis: int, exclusive: bool = False, reverse: bool = False
    ) -> Array:
        shown = np.where(mask, x, function.identity)
        return np.flip(function.accumulate(np.flip(shown, axis), axis), axis)

    return expected


def best(function: Callable[..., int]) -> Callable[..., Array]:
    def expected(x: Array, mask: Array, axis: int = -1, keepdims: bool = False) -> Array:
        wide = np.where(mask, x.astype(float), -INF if function is np.argmax else INF)
        return np.asarray(function(wide, axis, keepdims=keepdims))

    return expected


def mean(numbers: Numbers) -> float:
    return math.fsum(numbers) / len(numbers) if numbers else NAN


def variance(numbers: Numbers, correction: float = 0.0) -> float:
    count = len(numbers) - correction
    total = math.fsum((n - mean(numbers)) ** 2 for n in numbers)
    return total / count if count > 0 else NAN if not total else INF


def std(numbers: Numbers, correction: float = 0.0) -> float:
    return math.sqrt(variance(numbers, correction))


def logsumexp(numbers: Numbers) -> float:
    return math.log(math.fsum(map(math.exp, numbers))) if numbers else -INF


def norm(numbers: Numbers, p: float = 2.0) -> float:
    return math.fsum(abs(n) ** p for n in numbers) ** (1 / p)


def softmax(numbers: Array) -> Array:
    powers = np.exp(numbers - numbers.max(initial=-INF))
    return powers / powers.sum()


REDUCTIONS: dict[str, Callable[..., float]] = {
    "sum": math.fsum,
    "prod": math.prod,
    "mean": mean,
    "max": lambda numbers: max(numbers, default=-INF),
    "min": lambda numbers: min(numbers, default=INF),
    "logsumexp": logsumexp,
    "norm": norm,
    "variance": variance,
    "std": std,
}
GRID = Random((3, 4, 5), distinct=True)
SHOWN = Values(np.arange(60).reshape(3, 4, 5) % 7 % 3 != 1, "bool")
ROW = Values([True, False, True, True, False], "bool")
HIDDEN = Values([[True, True, False], [False, False, False]], "bool")


def case(
    op: str, label: str, x: Any, mask: Any, expected: Callable[..., Array], **given: Any
) -> Case:
    return Case(op, {"x": x, "mask": mask}, expected, label=label, magnitude=2.0, ulps=16, **given)


def reductions(name: str) -> list[Case]:
    """Return the test cases of one reduction: some axes, all axes, and a fully masked row."""
    op, expected = f"masked_{name}", over(REDUCTIONS[name])
    attrs = {"p": 3.0} if name == "norm" else {}
    return [
        case(op, "last", GRID, SHOWN, expected, attrs={"axis": [-1], **attrs}, dtypes=FLOATS),
        case(op, "all", GRID, ROW, expected, attrs=attrs),
        case(op, "two", GRID, ROW, expected, attrs={"axis": [0, 2], "keepdims": True, **attrs}),
        case(
            op,
            "hidden",
            Random((2, 3)),
            HIDDEN,
            expected,
            attrs={"axis": [1], **attrs},
            no_grad="infinite or undefined there",
        ),
        case(op, "0", Random((0, 5)), ROW, expected, attrs={"axis": [1], **attrs}),
    ]


WHOLE = Random((4, 5), -9, 9)
NANS = Values([[1.0, NAN, -3.0, 4.5], [NAN, NAN, NAN, NAN], [2.0, 0.5, NAN, INF]])
SOME = Values([[1.0, NAN, -3.0, 4.5], [0.25, 7.0, NAN, NAN], [2.0, 0.5, NAN, 9.0]])


def ordered(numbers: Numbers, q: float = 0.5, interpolation: str = "linear") -> float:
    return quantile(numbers, q, interpolation) if numbers else NAN


CASES = (
    *(made for name in REDUCTIONS for made in reductions(name)),
    case("masked_std", "sample", GRID, SHOWN, over(std), attrs={"axis": [1], "correction": 1.0}),
    case(
        "masked_variance",
        "sample",
        GRID,
        SHOWN,
        over(variance),
        attrs={"axis": [1], "correction": 1.0},
    ),
    *(
        case(
            f"masked_{name}",
            "integers",
            WHOLE,
            ROW,
            over(REDUCTIONS[name]),
            attrs={"axis": [0, 1]},
            dtypes=INTS,
            no_grad="integers",
        )
        for name in ("sum", "max", "min")
    ),
    *(
        case(
            f"masked_{name}",
            label,
            x,
            ROW,
            best(function),
            attrs={"axis": -1},
            dtypes=dtypes,
            no_grad="positions",
        )
        for name, function in (("argmax", np.argmax), ("argmin", np.argmin))
        for label, x, dtypes in (
            ("floats", Random((4, 5), distinct=True), FLOATS),
            ("integers", WHOLE, INTS),
            ("0", Random((0, 5)), WIDE),
            ("scalar-line", Random((5,), distinct=True), WIDE),
        )
    ),
    *(
        case(op, label, x, mask, along(function, hidden), attrs={"axis": axis}, no_grad=reason)
        for op, function, hidden in (
            ("masked_softmax", softmax, 0.0),
            ("masked_log_softmax", lambda numbers: np.log(softmax(numbers)), -INF),
        )
        for label, x, mask, axis, reason in (
            ("middle", GRID, SHOWN, 1, "" if hidden == 0 else "-inf there"),
            ("0", Random((0, 5)), ROW, 1, ""),
            ("hidden", Random((2, 3)), HIDDEN, -1, "" if hidden == 0 else "-inf there"),
        )
    ),
    *(
        case(
            f"masked_{name}",
            label,
            x,
            mask,
            running(function),
            attrs={"axis": 1, "reverse": True},
            terms=8,
        )
        for name, function in (("cumsum", np.add), ("cumprod", np.multiply))
        for label, x, mask in (
            ("grid", GRID, SHOWN),
            ("row", Random((4, 5)), ROW),
            ("0", Random((0, 5)), ROW),
        )
    ),
    *(
        Case(op, {"x": x}, over(function), attrs, FLOATS, label=label, no_grad=reason, ulps=8)
        for op, function, other in (
            ("nansum", math.fsum, {}),
            ("nanmean", mean, {}),
            ("nanmedian", ordered, {}),
            ("nanquantile", ordered, {"q": 0.3}),
        )
        for label, x, attrs, reason in (
            ("0", Random((0, 3)), {"axis": [1], **other}, ""),
            ("grid", GRID, {"axis": [2, 0], **other}, ""),
            ("some", SOME, {"axis": [1], **other}, ""),
            ("all", SOME, {**other, "keepdims": True}, ""),
            ("nothing", NANS, {"axis": [-1], **other}, "infinite or undefined there"),
        )
    ),
    *(
        Case(
            "nanquantile",
            {"x": SOME},
            over(ordered),
            {"axis": [1], "q": 0.4, "interpolation": method},
            label=method,
        )
        for method in ("lower", "higher", "nearest", "midpoint")
    ),
    Case(
        "nansum",
        {"x": WHOLE},
        over(sum),
        {"axis": [0]},
        INTS,
        label="integers",
        no_grad="integers",
    ),
)
