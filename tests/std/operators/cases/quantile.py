"""Test cases of median and quantile."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from case import FLOATS, LENGTHS, Array, Case, Random, Source, Values
from cases.reduction import ATTRS, INF, NAN, over


def quantile(numbers: list[float], q: float, interpolation: str = "linear") -> float:
    if any(n != n for n in numbers):
        return NAN
    ordered = sorted(numbers)
    place = q * (len(ordered) - 1)
    low = math.floor(place)
    if place == low or interpolation == "lower":
        return ordered[low]
    if interpolation in ("higher", "nearest"):
        return ordered[low + 1 if interpolation == "higher" else round(place)]
    if interpolation == "midpoint":
        place = low + 0.5
    return ordered[low] + (place - low) * (ordered[low + 1] - ordered[low])


def median(numbers: list[float]) -> float:
    if any(n != n for n in numbers):
        return NAN
    ordered, half = sorted(numbers), len(numbers) // 2
    return ordered[half] if len(numbers) % 2 else (ordered[half - 1] + ordered[half]) / 2


def case(op: str, label: str, x: Source, reason: str = "", **options: Any) -> Case:
    def expected(
        x: Array, axis: tuple[int, ...] = (), keepdims: bool = False, **attrs: Any
    ) -> Array:
        shares = attrs.pop("qs", None)
        if shares is not None:
            return np.stack([expected(x, axis, keepdims, q=q, **attrs) for q in shares])
        return over(lambda numbers: FUNCTIONS[op](numbers, **attrs))(x, axis, keepdims)

    given = {"dtypes": FLOATS, "magnitude": 2.0, **options}
    if op == "quantile" and "qs" not in given.get("attrs", {}):
        given["attrs"] = {"q": 0.3, **given.get("attrs", {})}
    return Case(op, {"x": x}, expected, label=label, no_grad=reason, **given)


FUNCTIONS = {"median": median, "quantile": quantile}
GRID = Random((3, 4, 5), distinct=True)

CASES = (
    *(
        made
        for op in ("median", "quantile")
        for made in (
            *(case(op, str(n), Random((n,), distinct=True)) for n in LENGTHS if n),
            *(case(op, label, GRID, attrs=attrs) for label, attrs in ATTRS.items()),
            case(op, "ties", Values([1.0, 3.0, 3.0, 3.0, 5.0, 1.0]), "equal"),
            case(op, "empty-kept", Random((0, 3)), attrs={"axis": [1]}),
            case(op, "empty", Random((0, 0)), attrs={"axis": [1]}),
            case(op, "scalar", Random(())),
            case(op, "scalar-axis", Random(()), attrs={"axis": [-1]}),
            case(
                op,
                "whole",
                Random((3, 8), 0, 9),
                "integers",
                attrs={"axis": [1]},
                dtypes=("int32", "uint8", "bool"),
            ),
            case(op, "nan", Values([[1.0, NAN, 0.0], [1.0, 2.0, 4.0]]), "NaN", attrs={"axis": [1]}),
        )
    ),
    case("median", "infinite", Values([INF, 1.0, INF, INF]), "infinite"),
    *(case("quantile", f"q-{q}", GRID, attrs={"axis": [1], "q": q}) for q in (0.0, 0.5, 0.9, 1.0)),
    *(
        case("quantile", f"{how}-{q}", GRID, attrs={"axis": [1], "q": q, "interpolation": how})
        for how in ("lower", "higher", "nearest", "midpoint")
        for q in (0.3, 0.5, 1.0)
    ),
    *(
        case("quantile", f"several-{label}", x, attrs={"qs": [0.25, 0.0, 0.6], **attrs})
        for label, x, attrs in (
            ("axis", GRID, {"axis": [1]}),
            ("all", GRID, {}),
            ("axes-kept", GRID, {"axis": [0, 2], "keepdims": True, "interpolation": "nearest"}),
            ("scalar", Random(()), {}),
            ("empty", Random((0, 0)), {"axis": [1]}),
        )
    ),
    case("quantile", "one-of-several", GRID, attrs={"qs": [0.5], "axis": [2]}),
)
