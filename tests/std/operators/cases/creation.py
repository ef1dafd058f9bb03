"""Test cases of cast, assign and fill."""

from __future__ import annotations

from typing import Any

import numpy as np
from case import FLOATS, INTS, LENGTHS, Array, Case, Random, Values

EVERY = (*FLOATS, *INTS, "bool")


def cast(to: str, label: str, source: Random | Values, dtypes: tuple[str, ...]) -> Case:
    return Case(
        "cast",
        {"x": source},
        lambda x, dtype: x.astype(dtype) if x.dtype != dtype else x,
        {"dtype": to},
        dtypes=dtypes,
        label=f"{label}-{to}",
        no_grad="" if to == "float64" and dtypes == FLOATS else "rounding has no derivative",
        # float64 results are compared only to float32 precision.
        ulps=2.0**30 if to == "float64" else 4.0,
    )


def filled(shape: tuple[int, ...], value: float, dtype: str) -> Case:
    return Case(
        "fill",
        {},
        lambda **_: np.full(shape, value, dtype),
        {"shape": list(shape), "value": value, "dtype": dtype},
        dtypes=("float32",),
        label=f"{dtype}-{'x'.join(map(str, shape)) or 'scalar'}",
        no_grad="it has no input",
    )


def copy(x: Array, *_: Any, **attrs: Any) -> Array:
    return np.array(x.tolist(), x.dtype).reshape(x.shape)


CASES = (
    *(
        Case(
            "assign",
            {"x": Random((n,))},
            copy,
            dtypes=FLOATS,
            label=str(n),
            no_grad="" if n == 7 else "the length does not matter to it",
        )
        for n in LENGTHS
    ),
    Case(
        "assign",
        {"x": Random((3, 4))},
        copy,
        dtypes=EVERY,
        label="dtypes",
        no_grad="not all floats",
    ),
    Case("assign", {"x": Random(())}, copy, label="scalar"),
    Case(
        "assign", {"x": Values([np.nan, np.inf, -0.0])}, copy, label="special", no_grad="infinite"
    ),
    *(cast(to, "floats", Random((3, 4)), FLOATS) for to in EVERY),
    *(cast(to, "integers", Random((9,), 0, 9), (*INTS, "bool")) for to in EVERY),
    cast("int32", "towards-zero", Values([-1.75, -0.5, 0.5, 1.75]), FLOATS),
    cast("bool", "truth", Values([0.0, -0.0, 0.25, np.nan, np.inf]), FLOATS),
    cast("float32", "empty", Random((0, 3)), FLOATS),
    cast("float64", "scalar", Random(()), FLOATS),
    *(
        Case(
            "cast_like",
            {"x": Random(shape), "like": Random((2,), dtype=to)},
            lambda x, like: x.astype(like.dtype),
            dtypes=FLOATS,
            label=f"{to}-{len(shape)}d",
            ulps=2.0**30,
            no_grad="" if to == "float64" else "rounding has no derivative",
        )
        for to in ("float32", "float64", "int32")
        for shape in ((), (0,), (3, 4))
    ),
    *(filled((n,), 1.5, "float32") for n in LENGTHS),
    *(filled((2, 3), 2.0, dtype) for dtype in (*FLOATS, *INTS)),
    filled((2, 3), 1.0, "bool"),
    filled((), -3.0, "float64"),
    *(
        Case(
            "fill_like",
            {"x": Random(shape)},
            lambda x, value=0.0: np.full(x.shape, value).astype(x.dtype),
            {} if value == 0 else {"value": value},
            dtypes=EVERY if value < 2 else (*FLOATS, *INTS),
            label=f"{label}",
            no_grad="no element of x is read",
        )
        for label, shape, value in (
            ("zero", (3, 4), 0.0),
            ("two", (9,), 2.0),
            ("scalar", (), 1.0),
            ("empty", (0, 3), 1.0),
        )
    ),
)
