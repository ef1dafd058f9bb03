"""Cases of uniform and normal: only their shapes, the numbers are checked in test_philox.py."""

from __future__ import annotations

from case import Case

CASES = tuple(
    Case(
        op,
        {},
        None,
        attrs={"shape": shape, "dtype": dtype, "seed": 1},
        dtypes=(dtype,),
        label=f"{dtype}-{'x'.join(map(str, shape)) or 'scalar'}",
    )
    for op in ("uniform", "normal")
    for dtype, shape in (
        ("float32", [3, 5]),
        ("float32", []),
        ("float32", [0]),
        ("float64", [7]),
        ("float16", [2, 1, 3]),
    )
)
