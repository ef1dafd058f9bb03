"""Test cases of comparisons and logical operators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from case import FLOATS, INTS, LENGTHS, Array, Case, Random, Values
from cases.binary import SHAPES, SPECIAL

REASON = "its result is bool"


def compared(op: str, expected: Callable[[Array, Array], Array]) -> list[Case]:
    """Return the test cases of one function of two inputs with a bool result."""

    def case(label: str, x: tuple[int, ...], y: tuple[int, ...], dtypes: tuple[str, ...]) -> Case:
        inputs = {"x": Random(x), "y": Random(y)}
        return Case(op, inputs, expected, dtypes=dtypes, label=label, no_grad=REASON)

    some = ("float32", "int32")
    cases = [case(str(n), (n,), (n,), some) for n in LENGTHS]
    cases += [case(label, x, y, some) for label, (x, y) in SHAPES.items()]
    cases.append(case("all", (4, 9), (9,), (*FLOATS, *INTS, "bool")))
    special = {"x": Values(SPECIAL[0]), "y": Values(SPECIAL[1])}
    return [*cases, Case(op, special, expected, label="special", no_grad=REASON)]


CASES = (
    *compared("equal", lambda x, y: x == y),
    *compared("not_equal", lambda x, y: x != y),
    *compared("less", lambda x, y: x < y),
    *compared("less_equal", lambda x, y: x <= y),
    *compared("greater", lambda x, y: x > y),
    *compared("greater_equal", lambda x, y: x >= y),
    *compared("logical_and", lambda x, y: (x != 0) & (y != 0)),
    *compared("logical_or", lambda x, y: (x != 0) | (y != 0)),
    *compared("logical_xor", lambda x, y: (x != 0) ^ (y != 0)),
    *(
        Case(
            "logical_not",
            {"x": Random((n,))},
            lambda x: x == 0,
            dtypes=(*FLOATS, *INTS, "bool"),
            label=str(n),
            no_grad=REASON,
        )
        for n in LENGTHS
    ),
    Case(
        "logical_not",
        {"x": Values([0.0, -0.0, np.nan, np.inf, 1e-30])},
        lambda x: x == 0,
        label="special",
        no_grad=REASON,
    ),
)
