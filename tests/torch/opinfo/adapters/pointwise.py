"""Adapters for PyTorch's element-wise operators."""

from __future__ import annotations

import math
from typing import Any, Final

import torch

from .arguments import (
    FLOATS,
    Adapter,
    as_bool,
    cast,
    dtype_of,
    filled,
    floating,
    in_float32,
    is_float,
    is_number,
    name_of,
    ops,
    promoted,
    result_dtype,
    scalar,
)


def of_floats(op: str) -> Adapter:
    """Return an adapter for an operator on floats; integers are converted, as in PyTorch."""
    return lambda x: getattr(ops, op)(floating(x))


def of_numbers(op: str) -> Adapter:
    """Return an adapter for an operator that accepts integers and floats."""

    def apply(x: Any) -> Any:
        return getattr(ops, op)(x)

    return apply


def of_two(op: str, *, floats: bool = False) -> Adapter:
    """Return an adapter for an operator that takes two tensors, in their common dtype."""
    return lambda x, y: getattr(ops, op)(*promoted(x, y, floats=floats))


def of_bools(op: str) -> Adapter:
    return lambda *values: getattr(ops, op)(*map(as_bool, values))


def rounding(op: str) -> Adapter:
    """Return an adapter for an operator that leaves integers unchanged."""
    return lambda x: getattr(ops, op)(x) if is_float(x) else ops.assign(x)


def same(x: Any, *_: Any, **__: Any) -> Any:
    return ops.assign(x)


def as_dtype(dtype: str) -> Adapter:
    return lambda x, **_: cast(ops.assign(x), dtype)


def to(x: Any, *args: Any, **kwargs: Any) -> Any:
    given = [*args, *kwargs.values()]
    dtypes = [item for item in given if isinstance(item, torch.dtype)]
    tensors = [item for item in given if isinstance(item, torch.Tensor)]
    return cast(x, name_of(dtypes[0]) if dtypes else dtype_of(tensors[0]) if tensors else None)


def add(x: Any, y: Any, *, alpha: Any = 1) -> Any:
    x, y = promoted(x, y)
    return ops.add(x, times(y, alpha))


def times(x: Any, factor: Any) -> Any:
    """Return x times a number, or x itself if the number is 1."""
    if factor == 1:
        return x
    if is_number(x):
        return x * factor
    return ops.multiply(x, int(factor) if not is_float(x) else float(factor))


def sub(x: Any, y: Any, *, alpha: Any = 1) -> Any:
    x, y = promoted(x, y)
    return ops.subtract(x, times(y, alpha))


def rsub(x: Any, y: Any, *, alpha: Any = 1) -> Any:
    return sub(y, x, alpha=alpha)


def div(x: Any, y: Any, *, rounding_mode: str | None = None) -> Any:
    if rounding_mode == "floor":
        return ops.floor_divide(*promoted(x, y))
    if rounding_mode == "trunc":
        dtype = result_dtype(x, y)
        if dtype in FLOATS:
            return ops.trunc(div(x, y))
        x, y = promoted(x, y)
        quotient = ops.floor_divide(x, y)
        rest = ops.subtract(x, ops.multiply(quotient, y))
        beyond = ops.logical_and(ops.less(quotient, 0), ops.not_equal(rest, 0))
        return ops.add(quotient, cast(beyond, dtype_of(quotient)))
    return ops.divide(*promoted(x, y, floats=True))


def power(x: Any, y: Any) -> Any:
    dtype = result_dtype(x, y)
    if is_number(y) and dtype in FLOATS:
        return ops.pow_scalar(cast(x, dtype), exponent=y)
    return ops.power(*promoted(x, y))


def float_power(x: Any, y: Any) -> Any:
    x = x if is_number(x) else cast(x, "float64")
    if is_number(y):
        return ops.pow_scalar(x, exponent=float(y))
    return ops.power(float(x) if is_number(x) else x, cast(y, "float64"))


def clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    x, *bounds = promoted(x, *(bound for bound in (min, max) if bound is not None))
    low = bounds.pop(0) if min is not None else None
    high = bounds.pop(0) if max is not None else None
    if (low is None or is_number(low)) and (high is None or is_number(high)):
        limits = {"min": low, "max": high}
        return ops.clip(x, **{key: value for key, value in limits.items() if value is not None})
    x = ops.maximum(x, low) if low is not None else x
    return ops.minimum(x, high) if high is not None else x


def clamp_max(x: Any, max: Any) -> Any:
    return clamp(x, max=max)


def angle(x: Any) -> Any:
    x = floating(x)
    return ops.where(ops.isnan(x), x, ops.where(ops.less(x, 0), math.pi, filled(x, 0.0)))


def scaled(factor: float) -> Adapter:
    return lambda x: ops.scale(floating(x), scale=factor)


def round_(x: Any, *, decimals: int = 0) -> Any:
    if not is_float(x) or decimals == 0:
        return rounding("round")(x)
    factor = 10.0 ** abs(decimals)
    if decimals > 0:
        return ops.divide(ops.round(ops.multiply(x, factor)), factor)
    return ops.multiply(ops.round(ops.divide(x, factor)), factor)


def nan_to_num(x: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    if not is_float(x):
        return ops.assign(x)
    limits = torch.finfo(getattr(torch, dtype_of(x)))
    return ops.nan_to_num(
        x,
        nan=0.0 if nan is None else nan,
        posinf=limits.max if posinf is None else posinf,
        neginf=limits.min if neginf is None else neginf,
    )


def logit(x: Any, eps: float | None = None) -> Any:
    return ops.logit(floating(x), **({} if eps is None else {"eps": eps}))


def isclose(x: Any, y: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    attrs = {"rtol": float(rtol), "atol": float(atol), "equal_nan": equal_nan}
    return ops.isclose(*promoted(x, y), **attrs)


def test_of(op: str) -> Adapter:
    """Return an adapter for a predicate of floats; integers are converted to floats."""

    def apply(x: Any) -> Any:
        return getattr(ops, op)(floating(x))

    return apply


def is_infinite(value: float) -> Adapter:
    return lambda x: ops.equal(floating(x), value)


def isreal(x: Any) -> Any:
    return filled(floating(x), 1.0, "bool")


def ldexp(x: Any, y: Any) -> Any:
    x, y = promoted(floating(x), y, floats=True)
    return ops.multiply(x, ops.power(2.0, y))


def entr(x: Any) -> Any:
    x = floating(x)
    inside = ops.where(ops.equal(x, 0), 0.0, ops.negative(ops.multiply(x, ops.log(x))))
    return ops.where(ops.less(x, 0), -math.inf, inside)


def lerp(x: Any, y: Any, weight: Any) -> Any:
    if is_number(weight):
        weight = scalar(weight, dtype_of(x))
    return ops.lerp(x, y, weight)


def addcmul(x: Any, y: Any, z: Any, *, value: Any = 1) -> Any:
    x, y, z = promoted(x, y, z)
    return ops.add(x, times(ops.multiply(y, z), value))


def addcdiv(x: Any, y: Any, z: Any, *, value: Any = 1) -> Any:
    x, y, z = promoted(x, y, z, floats=True)
    return ops.add(x, times(ops.divide(y, z), value))


def dist(x: Any, y: Any, p: float = 2) -> Any:
    return ops.norm(ops.subtract(*promoted(x, y)), p=float(p))


def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    dtype = dtype_of(x)
    value = (
        cast(value, dtype) if not is_number(value) else bool(value) if dtype == "bool" else value
    )
    return ops.where(mask, value, x)


def where(condition: Any, x: Any, y: Any) -> Any:
    x, y = promoted(x, y)
    return ops.where(condition, x, y)


def where_method(x: Any, condition: Any, y: Any) -> Any:
    return where(condition, x, y)


def sign(x: Any) -> Any:
    return ops.assign(x) if dtype_of(x) == "bool" else ops.sign(x)


def mvlgamma(x: Any, p: int) -> Any:
    x = floating(x)
    parts = [ops.lgamma(ops.scale(x, bias=-0.5 * i)) for i in range(p)]
    return ops.scale(ops.add_n(parts), bias=p * (p - 1) / 4 * math.log(math.pi))


def ndtr(x: Any) -> Any:
    return ops.scale(ops.erfc(ops.scale(floating(x), scale=-math.sqrt(0.5))), scale=0.5)


def ndtri(x: Any) -> Any:
    x = floating(x)
    # In float32, 2x - 1 loses the precision of a small x.
    inner = ops.erfinv(ops.scale(cast(x, "float64"), scale=2.0, bias=-1.0))
    return cast(ops.scale(inner, scale=math.sqrt(2)), dtype_of(x))


_FLOAT = ("acos", "asin", "atan", "cos", "cosh", "erf", "exp", "expm1", "log", "log1p", "log2")
_FLOAT += ("reciprocal", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh")
_FLOAT += ("acosh", "asinh", "atanh", "digamma", "deg2rad", "erfc", "erfinv", "exp2", "lgamma")
_FLOAT += ("log10", "rad2deg", "sinc")
_CASTS = {
    "bfloat16": "bfloat16",
    "bool": "bool",
    "byte": "uint8",
    "char": "int8",
    "half": "float16",
    "double": "float64",
    "float": "float32",
    "int": "int32",
    "long": "int64",
    "short": "int16",
}
_COMPARED = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "maximum": "maximum",
    "minimum": "minimum",
    "mul": "multiply",
    "__rmul__": "multiply",
    "remainder": "mod",
    "floor_divide": "floor_divide",
    "fmax": "fmax",
    "fmin": "fmin",
    "fmod": "fmod",
    "heaviside": "heaviside",
    "hypot": "hypot",
}
_BITS = ("bitwise_and", "bitwise_or", "bitwise_xor")

ADAPTERS: Final[dict[str, Adapter]] = {
    **{name: of_floats(name) for name in _FLOAT},
    **{name: as_dtype(dtype) for name, dtype in _CASTS.items()},
    **{name: of_two(op) for name, op in _COMPARED.items()},
    **{name: of_two(name) for name in _BITS},
    **{name: rounding(name) for name in ("ceil", "floor", "trunc")},
    **{f"logical_{name}": of_bools(f"logical_{name}") for name in ("and", "or", "xor", "not")},
    **{name: test_of(name) for name in ("isfinite", "isinf", "isnan")},
    **dict.fromkeys(("positive", "conj", "conj_physical", "resolve_conj", "resolve_neg"), same),
    **dict.fromkeys(("real", "clone", "contiguous", "alias_copy"), same),
    "__radd__": add,
    "__rand__": of_two("bitwise_and"),
    "__ror__": of_two("bitwise_or"),
    "__rxor__": of_two("bitwise_xor"),
    "__rdiv__": lambda x, y: div(y, x),
    "__rmod__": lambda x, y: ops.mod(*promoted(y, x)),
    "__rpow__": lambda x, y: power(y, x),
    "__rsub__": rsub,
    "abs": of_numbers("abs"),
    "add": add,
    "addcdiv": in_float32(addcdiv),
    "addcmul": in_float32(addcmul),
    "angle": angle,
    "atan2": of_two("atan2", floats=True),
    "bitwise_left_shift": of_two("left_shift"),
    "bitwise_not": of_numbers("bitwise_not"),
    "bitwise_right_shift": of_two("right_shift"),
    "clamp": clamp,
    "clamp_max": clamp_max,
    "clamp_min": clamp,
    "copysign": of_two("copysign", floats=True),
    "dist": dist,
    "div": div,
    "float_power": float_power,
    "frac": of_floats("frac"),
    "isclose": isclose,
    "isneginf": is_infinite(-math.inf),
    "isposinf": is_infinite(math.inf),
    "isreal": isreal,
    "ldexp": ldexp,
    "lerp": in_float32(lerp),
    "logaddexp": of_two("logaddexp"),
    "logaddexp2": of_two("logaddexp2"),
    "logit": logit,
    "masked_fill": masked_fill,
    "mvlgamma": in_float32(mvlgamma),
    "nan_to_num": nan_to_num,
    "neg": of_numbers("negative"),
    "polygamma": lambda x, n: ops.polygamma(floating(x), n=n),
    "pow": power,
    "round": in_float32(round_),
    "rsub": rsub,
    "sgn": sign,
    "sign": sign,
    "signbit": of_numbers("signbit"),
    "special.entr": entr,
    "special.ndtr": ndtr,
    "special.ndtri": ndtri,
    "special.polygamma": lambda x, n: ops.polygamma(floating(x), n=n),
    "special.xlog1py": of_two("xlog1py", floats=True),
    "square": lambda x: ops.square(x if dtype_of(x) != "bool" else cast(x, "int64")),
    "sub": sub,
    "to": to,
    "true_divide": div,
    "where": where_method,
    "xlogy": of_two("xlogy", floats=True),
}
