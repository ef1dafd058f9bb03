"""Test cases with very large or small numbers: squares are out of range, derivatives are finite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from case import Array, Case, Values

SIZES = {"float32": (1e-30, 1e-20, 1e20, 1e30), "float64": (1e-250, 1e-200, 1e200, 1e250)}
Numbers = Sequence[float]


def wide(*arrays: Array) -> list[Array]:
    """Return the arrays in a dtype that represents their squares."""
    return [array.astype(np.longdouble) for array in arrays]


def case(
    op: str,
    dtype: str,
    inputs: Mapping[str, Numbers],
    out_grad: Numbers,
    gradients: Callable[..., Any],
    **attrs: Any,
) -> Case:
    label = "-".join(["extreme", dtype, *map(str, attrs.values())])
    sources = {slot: Values(numbers) for slot, numbers in inputs.items()}
    options = {"no_grad": "compared with a formula", "magnitude": 0.0, "ulps": 8.0}
    return Case(
        op,
        sources,
        None,
        attrs,
        (dtype,),
        label,
        gradients=gradients,
        out_grad=list(out_grad),
        **options,  # type: ignore[arg-type]
    )


def divide(x: Array, y: Array, out_grad: Array) -> tuple[Array, Array]:
    x, y, out_grad = wide(x, y, out_grad)
    return out_grad / y, -out_grad * x / y**2


def power(x: Array, y: Array, out_grad: Array) -> tuple[Array, Array]:
    x, y, out_grad = wide(x, y, out_grad)
    return out_grad * y * x ** (y - 1), out_grad * x**y * np.log(x)


def power_of_one(x: Array, out_grad: Array, exponent: float) -> Array:
    x, out_grad = wide(x, out_grad)
    return out_grad * exponent * x ** (np.longdouble(exponent) - 1)


def inverse(x: Array, out_grad: Array) -> Array:
    return power_of_one(x, out_grad, -1)


def inverse_root(x: Array, out_grad: Array) -> Array:
    return power_of_one(x, out_grad, -0.5)


def atan(x: Array, out_grad: Array) -> Array:
    x, out_grad = wide(x, out_grad)
    return out_grad / (1 + x**2)


def atan2(x: Array, y: Array, out_grad: Array) -> tuple[Array, Array]:
    x, y, out_grad = wide(x, y, out_grad)
    return out_grad * y / (x**2 + y**2), -out_grad * x / (x**2 + y**2)


def tanh_shrink(x: Array, out_grad: Array) -> Array:
    x, out_grad = wide(x, out_grad)
    return out_grad * np.tanh(x) ** 2


def of_dtype(dtype: str, sizes: Numbers) -> list[Case]:
    ones, small, large = [1.0] * len(sizes), sizes[:2], sizes[2:]
    return [
        case("divide", dtype, {"x": ones, "y": sizes}, sizes, divide),
        case("power", dtype, {"x": sizes, "y": [-1.0] * len(sizes)}, sizes, power),
        case("pow_scalar", dtype, {"x": sizes}, sizes, power_of_one, exponent=-1.0),
        case("pow_scalar", dtype, {"x": sizes}, ones, power_of_one, exponent=1.5),
        case("reciprocal", dtype, {"x": sizes}, sizes, inverse),
        case("rsqrt", dtype, {"x": sizes}, sizes, inverse_root),
        case("atan", dtype, {"x": large}, large, atan),
        case("atan2", dtype, {"x": sizes, "y": [-size for size in sizes]}, ones, atan2),
        case("tanh_shrink", dtype, {"x": small}, [1 / size for size in small], tanh_shrink),
    ]


CASES = tuple(each for dtype, sizes in SIZES.items() for each in of_dtype(dtype, sizes))
