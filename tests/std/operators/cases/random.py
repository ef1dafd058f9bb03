"""Shape cases of random operators; test_philox.py checks their numbers."""

from __future__ import annotations

from case import FLOATS, Case, Random

CASES = (
    *(
        Case(
            op,
            {},
            None,
            attrs={"shape": shape, "dtype": dtype, "seed": 1},
            dtypes=(dtype,),
            label=f"{dtype}-{'x'.join(map(str, shape)) or 'scalar'}",
        )
        for op in ("uniform", "normal", "truncated_normal")
        for dtype, shape in (
            ("float32", [3, 5]),
            ("float32", []),
            ("float32", [0]),
            ("float64", [7]),
            ("float16", [2, 1, 3]),
        )
    ),
    *(
        Case(
            "randint",
            {},
            None,
            attrs={"shape": shape, "low": -3, "high": 90, "dtype": dtype, "seed": 1},
            dtypes=(dtype,),
            label=f"{dtype}-{'x'.join(map(str, shape)) or 'scalar'}",
        )
        for dtype, shape in (("int64", [3, 5]), ("int8", [33]), ("int32", []), ("int64", [0]))
    ),
    *(
        Case("permutation", {}, None, attrs={"n": n, "seed": 1}, dtypes=("int64",), label=f"{n}")
        for n in (0, 1, 2, 33)
    ),
    *(
        Case(
            "bernoulli",
            {"x": Random(shape, 0.0, 1.0)},
            None,
            attrs={"seed": 1},
            dtypes=FLOATS,
            label="x".join(map(str, shape)) or "scalar",
            no_grad="random integers are not continuous",
        )
        for shape in ((3, 5), (), (0,), (33,))
    ),
)
