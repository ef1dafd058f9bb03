"""Test cases of reductions composed of other operators: logsumexp, norm, variance and the like."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from case import FLOATS, INTS, LENGTHS, Array, Case, Random, Values
from cases.reduction import ATTRS, INF, LENGTH, NAN, over


def logsumexp(numbers: list[float]) -> float:
    top = max(numbers, default=-INF)
    if any(n != n for n in numbers):
        return NAN
    if math.isinf(top):
        return top
    return top + math.log(math.fsum(math.exp(n - top) for n in numbers))


def variance(numbers: list[float], correction: float = 0.0) -> float:
    if not numbers:
        return NAN
    mean = math.fsum(numbers) / len(numbers)
    total = math.fsum((n - mean) ** 2 for n in numbers)
    count = max(len(numbers) - correction, 0.0)
    return total / count if count else (NAN if total == 0 else INF)


def norm(numbers: list[float], p: float = 2.0) -> float:
    sizes = [abs(n) for n in numbers]
    if math.isinf(p):
        return max(sizes) if p > 0 else min(sizes)
    if p == 0:
        return float(sum(n != 0 for n in sizes))
    return math.fsum(n**p for n in sizes) ** (1 / p)


def std(numbers: list[float], correction: float = 0.0) -> float:
    return math.sqrt(variance(numbers, correction))


FUNCTIONS = {"logsumexp": logsumexp, "norm": norm, "variance": variance, "std": std}


def case(op: str, label: str, x: Random | Values, reason: str = "", **options: Any) -> Case:
    def expected(
        x: Array, axis: tuple[int, ...] = (), keepdims: bool = False, **attrs: Any
    ) -> Array:
        return over(lambda numbers: FUNCTIONS[op](numbers, **attrs))(x, axis, keepdims)

    given = {"terms": 60, "magnitude": 4.0, "dtypes": FLOATS, **options}
    return Case(op, {"x": x}, expected, label=label, no_grad=reason, **given)


def common(op: str) -> list[Case]:
    """Return the test cases that all of these operators share."""
    away = {"avoid": (0.0,), "gap": 0.1} if op == "norm" else {}
    return [
        *(case(op, str(n), Random((n,), **away), "" if n == 7 else LENGTH) for n in LENGTHS if n),
        *(case(op, k, Random((3, 4, 5), **away), attrs=a) for k, a in ATTRS.items()),
        case(op, "empty-kept", Random((0, 3)), attrs={"axis": [1]}),
        case(op, "empty-axis", Random((2, 0)), attrs={"axis": [1]}),
        case(op, "scalar", Random((), 0.5, 1)),
        case(op, "nan", Values([[1.0, NAN], [1.0, 2.0]]), "NaN", attrs={"axis": [1]}),
    ]


def shares(x: Array, out_grad: Array) -> Array:
    with np.errstate(all="ignore"):
        top = np.max(x)
        if top == INF:
            return out_grad * np.where(x == INF, NAN, 0.0)
        powers = np.exp(x - top) if np.isfinite(top) else np.zeros_like(x)
        return out_grad * powers / max(powers.sum(), 1)


def edges() -> list[Case]:
    """Return test cases in which exponentials or squares overflow, and test cases at kinks."""
    far = Values([[1000.0, 999.0, 1000.0], [-1000.0, -1001.0, -INF], [INF, 1.0, 2.0]])
    wide = ("float32", "float64")
    close: dict[str, Any] = {"terms": 3, "magnitude": 0.1}
    zeros = Values([[0.0, 0.0, 0.0], [3.0, 0.0, -4.0]])
    apart = Values([[0.5, -1.5, 1.0, -0.25], [2.0, 0.75, -1.25, 0.125]])  # in magnitude
    return [
        case("logsumexp", "far", far, "differences are too coarse", attrs={"axis": [1]}),
        case(
            "logsumexp", "far-gradients", Values([500.0, 499.75, 499.5]), gradients=shares, **close
        ),
        case("logsumexp", "nothing", Values([-INF, -INF]), "-inf", gradients=shares),
        case("logsumexp", "infinite", Values([1.0, INF, -INF]), "inf", gradients=shares),
        case("variance", "far", Values([1e4, 1e4 + 1, 1e4 + 2]), LENGTH, dtypes=wide),
        *(
            case(
                "variance", f"correction-{c}", Random((3, 4)), attrs={"axis": [1], "correction": c}
            )
            for c in (1.0, 0.5)
        ),
        case("variance", "beyond", Random((3,)), "divided by 0", attrs={"correction": 3.0}),
        *(
            case("norm", f"p-{p}", Random((3, 4), distinct=True), attrs={"axis": [1], "p": p})
            for p in (1.0, 3.0, 2.5)
        ),
        *(case("norm", f"p-{p}", apart, attrs={"axis": [1], "p": p}) for p in (INF, -INF)),
        case("norm", "p-half", Random((3, 4), 0.5, 2.0), attrs={"axis": [1], "p": 0.5}),
        case("norm", "p-0", zeros, attrs={"axis": [1], "p": 0.0}),
        case(
            "norm",
            "corner",
            zeros,
            "compared with a formula",
            attrs={"axis": [1]},
            gradients=lambda x, out_grad, axis: np.array([[0.0, 0.0, 0.0], [0.6, 0.0, -0.8]]),
        ),
    ]


def flat(x: Array, out_grad: Array) -> Array:
    return np.zeros_like(x)


def count(x: Array, axis: tuple[int, ...] = (), keepdims: bool = False) -> Array:
    return over(lambda numbers: sum(n != 0 for n in numbers))(x, axis, keepdims).astype(np.int64)


def counted(label: str, x: Random | Values, **options: Any) -> Case:
    reason = "its result is a count"
    given = {"dtypes": (*FLOATS, *INTS, "bool"), **options}
    return Case("count_nonzero", {"x": x}, count, label=label, no_grad=reason, **given)


COUNTS = (
    *(counted(str(n), Random((n,), -1.0, 1.0)) for n in LENGTHS),
    *(counted(k, Random((3, 4, 5), -1.0, 1.0), attrs=a) for k, a in ATTRS.items()),
    counted("scalar", Random(())),
    counted("special", Values([0.0, -0.0, NAN, INF]), dtypes=FLOATS),
)

DEVIATIONS = (
    case("std", "correction", Random((3, 4)), attrs={"axis": [1], "correction": 1.0}),
    case("std", "equal", Values([2.0, 2.0, 2.0]), "compared with a formula", gradients=flat),
)

CASES = (*COUNTS, *DEVIATIONS, *(made for op in FUNCTIONS for made in common(op)), *edges())
