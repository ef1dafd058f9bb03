"""Functions of elements that are written with several operators."""

from __future__ import annotations

import math
from typing import Final

import opwright as ow
from opwright_torch.aten.shapes import broadcast, rank, with_shape
from opwright_torch.translate import Decline, Rows, Translator
from opwright_torch.translate.translator import FLOATS, Value

ROWS: Final = Rows()


@ROWS.row("aten::logaddexp")
def logaddexp(t: Translator, input: Value, other: Value) -> Value:
    """ln(exp(`input`) + exp(`other`))."""
    pair = t.op("stack", list(broadcast(t, *t.promote(input, other))), axis=0)
    return t.op("logsumexp", pair, axis=[0])


@ROWS.row("aten::logaddexp2")
def logaddexp2(t: Translator, input: Value, other: Value) -> Value:
    """log2(2^`input` + 2^`other`)."""
    pair = t.op("stack", list(broadcast(t, *t.promote(input, other))), axis=0)
    natural = t.op("logsumexp", t.op("scale", pair, scale=math.log(2)), axis=[0])
    return t.op("scale", natural, scale=1 / math.log(2))


@ROWS.row("aten::log10")
def log10(t: Translator, input: Value) -> Value:
    """The decimal logarithm."""
    return t.op("scale", t.op("log", t.cast(input, t.dtype())), scale=1 / math.log(10))


@ROWS.row("aten::exp2", "aten::special_exp2")
def exp2(t: Translator, input: Value) -> Value:
    """2 to the input."""
    return t.op("power", *t.promote(2.0, input))


@ROWS.row("aten::atanh", "aten::arctanh")
def atanh(t: Translator, input: Value) -> Value:
    """(ln(1 + x) - ln(1 - x)) / 2."""
    x = t.cast(input, t.dtype())
    double = t.op("subtract", t.op("log1p", x), t.op("log1p", t.op("negative", x)))
    return t.op("scale", double, scale=0.5)


@ROWS.row("aten::hypot")
def hypot(t: Translator, input: Value, other: Value) -> Value:
    """The length of a vector of two; its gradient at (0, 0), in PyTorch NaN, is 0."""
    pair = t.op("stack", list(broadcast(t, *t.promote(input, other))), axis=0)
    return t.op("norm", pair, p=2.0, axis=[0])


@ROWS.row("aten::xlogy", "aten::special_xlogy")
def xlogy(t: Translator, input: Value, other: Value) -> Value:
    """`input` · ln(`other`), and 0 where `input` is 0."""
    return _times_logarithm(t, input, other, "log", 0)


@ROWS.row("aten::special_xlog1py")
def xlog1py(t: Translator, input: Value, other: Value) -> Value:
    """`input` · ln(1 + `other`), and 0 where `input` is 0."""
    return _times_logarithm(t, input, other, "log1p", -1)


def _times_logarithm(t: Translator, input: Value, other: Value, type: str, pole: int) -> Value:
    x, y = t.promote(input, other)
    outside = t.op("logical_or", t.op("less_equal", y, pole), t.op("equal", y, math.inf))
    is_zero = t.op("logical_and", t.op("equal", x, 0), outside)
    safe = t.op("where", is_zero, t.full(pole + 1, (), y.dtype), y)  # of which it is 0
    return t.op("multiply", x, t.op(type, safe))


@ROWS.row("aten::special_entr")
def entropy(t: Translator, input: Value) -> Value:
    """The input times its negative logarithm: 0 at 0, -inf below."""
    x = t.cast(input, t.dtype())
    (below,) = t.promote(-math.inf)
    inner = t.op("negative", _times_logarithm(t, x, x, "log", 0))
    return t.op("where", t.op("less", x, 0), below, inner)


@ROWS.row("aten::ldexp")
def ldexp(t: Translator, input: Value, other: Value) -> Value:
    """`input` · 2^`other`."""
    x, y = t.promote(input, other)
    return t.op("multiply", x, t.op("power", t.full(2, (), x.dtype), y))


@ROWS.row("aten::heaviside")
def heaviside(t: Translator, input: Value, values: Value) -> Value:
    """0 below 0, 1 above, `values` at 0."""
    x, at_zero = t.promote(input, values)
    step = t.cast(t.op("greater", x, 0), x.dtype)
    return t.op("where", t.op("equal", x, 0), at_zero, step)


@ROWS.row("aten::deg2rad")
def deg2rad(t: Translator, input: Value) -> Value:
    """Degrees in radians."""
    return t.op("scale", t.cast(input, t.dtype()), scale=math.pi / 180)


@ROWS.row("aten::rad2deg")
def rad2deg(t: Translator, input: Value) -> Value:
    """Radians in degrees."""
    return t.op("scale", t.cast(input, t.dtype()), scale=180 / math.pi)


@ROWS.row("aten::nan_to_num")
def nan_to_num(
    t: Translator, input: Value, nan: Value = None, posinf: Value = None, neginf: Value = None
) -> Value:
    """Numbers in the place of NaN and infinities."""
    if input.dtype not in FLOATS:
        return input
    high, low = (math.inf if posinf is None else posinf), (-math.inf if neginf is None else neginf)
    return t.op("nan_to_num", input, nan=float(nan or 0), posinf=float(high), neginf=float(low))


@ROWS.row("aten::isin.Tensor_Tensor")
def isin(
    t: Translator,
    elements: Value,
    test_elements: Value,
    assume_unique: bool = False,
    invert: bool = False,
) -> Value:
    """Whether elements are among others."""
    dtype = t.promoted_dtype(elements, test_elements)
    x, others = t.promote(elements, test_elements, dtype=dtype)
    x = t.op("unsqueeze", x, axis=[rank(x)])
    others = with_shape(t, others, [math.prod(others.shape)])
    found = t.op("any", t.op("equal", x, others), axis=[rank(x) - 1])
    return t.op("logical_not", found) if invert else found


@ROWS.row("aten::linalg_cross")
def cross(t: Translator, input: Value, other: Value, dim: int = -1) -> Value:
    """The cross product along an axis."""
    x, y = broadcast(t, *t.promote(input, other))
    return t.op("cross", x, y, axis=dim)


@ROWS.row("aten::linalg_inv", "aten::inverse")
def inverse(t: Translator, A: Value = None, input: Value = None) -> Value:  # noqa: N803
    """The inverse of matrices."""
    return t.op("inverse", _matrices(input if A is None else A))


@ROWS.row("aten::linalg_cholesky", "aten::cholesky")
def cholesky(t: Translator, input: Value, upper: bool = False) -> Value:
    """The Cholesky factor of matrices."""
    return t.op("cholesky", _matrices(input), upper=upper)


@ROWS.row("aten::linalg_solve")
def solve(t: Translator, A: Value, B: Value, left: bool = True) -> Value:  # noqa: N803
    """The X of `A` X = `B`."""
    if not left or rank(B) < 2 or (rank(B) == rank(A) - 1 and B.shape == A.shape[:-1]):
        raise Decline(f"left={left}, shapes {list(A.shape)} and {list(B.shape)}")
    return t.op("solve", _matrices(A), B)


@ROWS.row("aten::linalg_solve_triangular")
def solve_triangular(
    t: Translator,
    input: Value,
    B: Value,  # noqa: N803
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Value:
    """The X of `input` X = `B`, where the input is triangular."""
    attrs = {"upper": upper, "unit_diagonal": unitriangular, "left": left}
    return t.op("triangular_solve", input, B, **attrs)


@ROWS.row("aten::triangular_solve")
def triangular_solve(
    t: Translator,
    input: Value,
    A: Value,  # noqa: N803
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> Value:
    """The X of `A` X = `input`, where A is triangular, and A."""
    attrs = {"upper": upper, "transpose": transpose, "unit_diagonal": unitriangular}
    return t.op("triangular_solve", A, input, **attrs), t.op("assign", A)


def _matrices(x: ow.Variable) -> ow.Variable:
    if 0 in (x.shape or ()):
        raise Decline(f"empty matrices, got {list(x.shape or ())}")
    return x
