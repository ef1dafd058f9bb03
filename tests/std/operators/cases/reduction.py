"""Test cases of reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
from case import FLOATS, INTS, LENGTHS, Array, Case, Random, Values

INF, NAN = math.inf, math.nan
LENGTH = "the length does not matter to it"


def over(function: Callable[[list[Any]], Any]) -> Callable[..., Array]:
    """Return a reduction that applies `function` to the list of elements of each result."""

    def reduce(x: Array, axis: Sequence[int] = (), keepdims: bool = False) -> Array:
        gone = {a % x.ndim for a in axis} if axis and x.ndim else set(range(x.ndim))
        kept = [a for a in range(x.ndim) if a not in gone]
        moved = (
            x.transpose([*kept, *sorted(gone)]).reshape([x.shape[a] for a in kept] + [-1])
            if (x.size)
            else np.zeros([x.shape[a] for a in kept] + [math.prod(x.shape[a] for a in gone)])
        )
        places = product(*map(range, moved.shape[:-1]))
        results = [function(moved[place].tolist()) for place in places]
        shape = [1 if a in gone else n for a, n in enumerate(x.shape)]
        out = np.array(results).reshape([x.shape[a] for a in kept])
        return out.reshape(shape) if keepdims else out

    return reduce


def total(numbers: list[float]) -> float:
    return math.fsum(numbers) if all(map(math.isfinite, numbers)) else sum(numbers)


def mean(numbers: list[float]) -> float:
    return total(numbers) / len(numbers) if numbers else NAN


def extremum(better: Callable[[float, float], bool]) -> Callable[[list[float]], float]:
    def find(numbers: list[float]) -> float:
        best = numbers[0]
        for number in numbers[1:]:
            if number != number or better(number, best):
                best = number
        return best if not any(n != n for n in numbers) else NAN

    return find


ATTRS: dict[str, dict[str, Any]] = {
    "all": {},
    "all-kept": {"keepdims": True},
    "first": {"axis": [0]},
    "last": {"axis": [-1]},
    "last-kept": {"axis": [-1], "keepdims": True},
    "middle": {"axis": [1]},
    "outer": {"axis": [0, 2]},
    "outer-turned": {"axis": [-1, 0], "keepdims": True},
    "every": {"axis": [2, 0, 1]},
}


def reduced(
    op: str, function: Callable[[list[Any]], Any], sums: bool, dtypes: tuple[str, ...]
) -> list[Case]:
    """Return the test cases of one reduction: lengths, axes, special values."""
    expected = over(function)

    def case(label: str, shape: tuple[int, ...], reason: str = "", **options: Any) -> Case:
        terms = math.prod(shape) if sums else 1
        return Case(
            op,
            {"x": Random(shape, distinct=not sums)},
            expected,
            label=label,
            no_grad=reason,
            **{"terms": terms, "magnitude": 2.0 if op != "sum" else 1.0 + terms, **options},
        )

    cases = [case(str(n), (n,), "" if n == 7 else LENGTH) for n in LENGTHS if n or sums]
    cases += [case(label, (3, 4, 5), attrs=attrs) for label, attrs in ATTRS.items()]
    cases += [
        case("halves", (5, 33), attrs={"axis": [0]}, dtypes=dtypes),
        case("scalar", ()),
        case("scalar-axis", (), attrs={"axis": [-1], "keepdims": True}),
        case("empty-kept", (0, 3), attrs={"axis": [1]}),
        case("ones", (1, 3, 1), attrs={"axis": [0, 2]}),
        case("long", (1000,), LENGTH, dtypes=FLOATS),
    ]
    if sums:
        cases.append(case("empty-axis", (2, 0), attrs={"axis": [1]}))
    special = Values([[1.0, NAN, 2.0], [INF, 1.0, 0.0], [INF, 1.0, -INF], [-INF, -INF, -1.0]])
    cases.append(
        Case(op, {"x": special}, expected, {"axis": [1]}, label="special", no_grad="infinite there")
    )
    return cases


def integers(op: str, function: Callable[[list[Any]], Any]) -> Case:
    return Case(
        op,
        {"x": Random((3, 7), -9, 9)},
        over(function),
        {"axis": [1]},
        dtypes=INTS,
        label="integers",
        no_grad="integers",
    )


def position(better: Callable[[float, float], bool]) -> Callable[..., Array]:
    def first(numbers: list[float]) -> int:
        best = 0
        for i, number in enumerate(numbers):
            if numbers[best] == numbers[best] and (
                number != number or better(number, numbers[best])
            ):
                best = i
        return best

    def reduce(x: Array, axis: int = -1, keepdims: bool = False) -> Array:
        return over(first)(x, [axis], keepdims).astype(np.int64)

    return reduce


def positions(op: str, better: Callable[[float, float], bool]) -> list[Case]:
    """Return the test cases of argmax or argmin."""

    def case(label: str, source: Random | Values, **options: Any) -> Case:
        reason = "its result is an index"
        return Case(op, {"x": source}, position(better), label=label, no_grad=reason, **options)

    return [
        *(case(str(n), Random((n,))) for n in LENGTHS if n),
        case("first", Random((3, 4, 5)), attrs={"axis": 0}),
        case("middle-kept", Random((3, 4, 5)), attrs={"axis": -2, "keepdims": True}),
        case("ties", Random((4, 9), 0, 2), dtypes=(*INTS, "bool")),
        case("empty-kept", Random((0, 3))),
        case("scalar", Random(())),
        case("scalar-kept", Random(()), attrs={"axis": 0, "keepdims": True}),
        case("special", Values([[1.0, NAN, 2.0, NAN], [INF, INF, 0.0, -INF]])),
    ]


def higher(a: float, b: float) -> bool:
    return a > b


def lower(a: float, b: float) -> bool:
    return a < b


def multiplied(numbers: list[float]) -> float:
    return math.prod(numbers)


def yes_or_no(op: str, function: Callable[[list[Any]], bool]) -> list[Case]:
    """Return the test cases of any or all."""

    def case(label: str, source: Random | Values, **options: Any) -> Case:
        reason = "its result is true or false"
        return Case(op, {"x": source}, over(function), label=label, no_grad=reason, **options)

    sparse = [[0.0, 0.0, 0.0, 0.0], [0.0, NAN, 0.0, 0.0], [1.0, 2.0, -INF, 3.0], [0.0] * 4]
    return [
        *(case(str(n), Random((n,), 0, 1), dtypes=("bool", "uint8")) for n in LENGTHS),
        *(case(f"zeros-{n}", Values([0.0] * n), dtypes=FLOATS) for n in LENGTHS if n),
        *(case(f"ones-{n}", Values([1.0] * n), dtypes=("bool", *FLOATS)) for n in LENGTHS if n),
        *(case(k, Random((3, 4, 5), 0, 1), attrs=a, dtypes=INTS) for k, a in ATTRS.items()),
        case("special", Values(sparse), attrs={"axis": [1]}),
        case("columns", Values(sparse), attrs={"axis": [0]}),
        case("scalar", Random(())),
        case("empty-axis", Random((2, 0)), attrs={"axis": [1]}),
    ]


def products() -> list[Case]:
    """Return the test cases of products with zeros, whose gradients are not always 0."""

    def case(label: str, values: Any, **attrs: Any) -> Case:
        return Case("prod", {"x": Values(values)}, over(multiplied), attrs, label=label)

    return [
        case("one-zero", [2.0, 0.0, 3.0, -4.0]),
        case("two-zeros", [2.0, 0.0, 3.0, 0.0]),
        case("zeros-over-axes", [[[2.0, 0.0], [3.0, 4.0]], [[5.0, 1.5], [0.0, 0.0]]], axis=[0, 2]),
    ]


TRUE_OR_FALSE = Random((4, 9))


CASES = (
    *reduced("prod", multiplied, True, FLOATS),
    *products(),
    integers("prod", math.prod),
    *yes_or_no("any", lambda numbers: any(n != 0 for n in numbers)),
    *yes_or_no("all", lambda numbers: all(n != 0 for n in numbers)),
    *(
        Case(
            op,
            {"x": TRUE_OR_FALSE},
            over(function),
            {"axis": [1]},
            dtypes=("bool",),
            label="bool",
            no_grad="true or false",
        )
        for op, function in (("sum", sum), ("prod", math.prod), ("max", max), ("min", min))
    ),
    *reduced("sum", total, True, FLOATS),
    integers("sum", sum),
    Case(
        "sum",
        {"x": Random((3, 200), 60, 120)},
        over(sum),
        {"axis": [1]},
        dtypes=INTS,
        label="beyond-int8",
        no_grad="integers",
    ),
    *reduced("mean", mean, True, FLOATS),
    Case(
        "mean",
        {"x": Random((3, 7), -9, 9)},
        over(mean),
        {"axis": [1]},
        dtypes=(*INTS, "bool"),
        label="whole",
        no_grad="integers",
    ),
    *reduced("max", extremum(higher), False, FLOATS),
    integers("max", max),
    *reduced("min", extremum(lower), False, FLOATS),
    integers("min", min),
    *positions("argmax", higher),
    *positions("argmin", lower),
)
