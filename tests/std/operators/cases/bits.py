"""Test cases of bitwise operators, shifts, bytes reinterpreted in another dtype, and sign bits."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from case import FLOATS, INTS, Array, Case, Random, Values
from cases.unary import ENDS, INF, NAN

WHY = "integers"


def each_pair(function: Callable[[int, int], int]) -> Callable[..., Array]:
    """Vectorize a function of two Python integers; results wrap to the dtype of x."""

    def apply(x: Array, y: Array) -> Array:
        exact = np.frompyfunc(function, 2, 1)(x.astype(object), y.astype(object))
        if x.dtype == bool:
            return exact.astype(bool)
        bits = 8 * x.dtype.itemsize
        wrapped = np.frompyfunc(lambda a: a % 2**bits, 1, 1)(exact)
        return wrapped.astype(f"uint{bits}").astype(x.dtype)

    return apply


def of_bits(op: str, function: Callable[[int, int], int]) -> list[Case]:
    return [
        Case(
            op,
            {"x": Random(x, -99, 99), "y": Random(y, -99, 99)},
            each_pair(function),
            dtypes=(*INTS, "bool"),
            label=label,
            no_grad=WHY,
        )
        for label, x, y in (("33", (33,), (33,)), ("row", (3, 1), (5,)), ("0", (0,), (1,)))
    ]


def shifts(op: str, function: Callable[[int, int], int]) -> list[Case]:
    """Return the test cases of shifts, including shifts by the full width."""
    counts = Values([[0, 1, 2, 7, 8, 31, 32, 63, 64, 100]])
    x = Values([[1], [3], [100], [127], [0]])
    by = Random((2, 9), 0, 7)
    signed = {"x": Values([-1, -128, 100, -7, -3]), "y": Values([1, 7, -1, 100, 64])}
    return [
        Case(op, {"x": x, "y": counts}, each_pair(function), dtypes=INTS, label=op, no_grad=WHY),
        Case(
            op,
            {"x": Random((9,), -99, 99), "y": by},
            each_pair(function),
            dtypes=INTS,
            label="row",
            no_grad=WHY,
        ),
        Case(
            op,
            signed,
            each_pair(function),
            dtypes=("int8", "int16", "int32", "int64"),
            label="signed",
            no_grad=WHY,
        ),
        Case(
            op,
            {"x": Random((0, 3)), "y": Random(())},
            each_pair(function),
            dtypes=INTS,
            label="0",
            no_grad=WHY,
        ),
    ]


def left(x: int, y: int) -> int:
    return x << y if 0 <= y < 64 else 0


def right(x: int, y: int) -> int:
    return x >> (y if 0 <= y < 64 else 64)


def cast(label: str, x: Any, source: str, target: str, shape: tuple[int, ...]) -> Case:
    return Case(
        "bit_cast",
        {"x": x},
        lambda x, dtype: np.frombuffer(x.astype(source).tobytes(), dtype).reshape(shape),
        {"dtype": target},
        dtypes=(source,),
        label=label,
        no_grad="bits are not continuous",
    )


def signed(x: Array, y: Array) -> Array:
    return np.where(np.signbit(x) == np.signbit(y), x, 0 - x)


def is_negative(x: Array) -> Array:
    return np.signbit(x) if x.dtype.kind == "f" else x < 0


def inverted(x: Array) -> Array:
    if x.dtype == bool:
        return x == 0
    return x.dtype.type(np.iinfo(x.dtype).max if x.dtype.kind == "u" else -1) - x


CASES = (
    *of_bits("bitwise_and", operator.and_),
    *of_bits("bitwise_or", operator.or_),
    *of_bits("bitwise_xor", operator.xor),
    *(
        Case(
            "bitwise_not",
            {"x": Random(shape, -99, 99)},
            inverted,
            dtypes=(*INTS, "bool"),
            label=label,
            no_grad=WHY,
        )
        for label, shape in (("33", (33,)), ("scalar", ()), ("0", (0, 3)))
    ),
    *shifts("left_shift", left),
    *shifts("right_shift", right),
    cast("same", Random((3, 5)), "float32", "int32", (3, 5)),
    cast("scalar", Random(()), "int32", "float32", ()),
    cast("narrower", Random((4, 8)), "float64", "int8", (4, 64)),
    cast("wider", Random((3, 4), -99, 99), "int16", "int32", (3, 2)),
    cast("empty", Random((0, 3)), "int8", "uint8", (0, 3)),
    *(
        Case(
            "copysign",
            {"x": Random(x, avoid=(0.0,)), "y": Random(y, avoid=(0.0,))},
            signed,
            dtypes=FLOATS,
            label=label,
        )
        for label, x, y in (
            ("33", (33,), (33,)),
            ("row", (3, 4), (4,)),
            ("scalar", (), (2, 3)),
            ("0", (0,), (0,)),
        )
    ),
    Case(
        "copysign",
        {"x": Values(ENDS), "y": Values([-0.0, 0.0, -1.0, INF, -INF, -0.0, -1.0])},
        lambda x, y: np.array([-0.0, 0.0, -1.0, 1.0, -INF, -INF, NAN]),
        dtypes=FLOATS,
        label="special",
        no_grad="infinite there",
    ),
    Case("signbit", {"x": Values([*ENDS, -2.5])}, is_negative, dtypes=FLOATS, no_grad="bool"),
    Case(
        "signbit",
        {"x": Random((9,), -9, 9)},
        is_negative,
        dtypes=INTS,
        label="integers",
        no_grad="bool",
    ),
    Case("signbit", {"x": Random((0, 3))}, is_negative, label="0", no_grad="bool"),
)
