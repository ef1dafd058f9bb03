"""Elementwise functions that are composed of several operators."""

from __future__ import annotations

import math
from typing import Final

import opwright as ow
from opwright_torch.aten.shapes import broadcast, rank, with_shape
from opwright_torch.translate import Decline, Row, Rows, Translator
from opwright_torch.translate.translator import FLOATS, Value

ROWS: Final = Rows()


def _pair(type: str) -> Row:
    def row(t: Translator, input: Value, other: Value) -> Value:
        return t.op(type, *t.promote(input, other))

    row.__doc__ = f"Append the operator {type} in the dtype of PyTorch's result."
    return row


for _type, _names in {
    "copysign": "copysign",
    "fmax": "fmax",
    "fmin": "fmin",
    "fmod": "fmod",
    "hypot": "hypot",  # its gradient at (0, 0) is 0; in PyTorch it is NaN
    "logaddexp": "logaddexp",
    "logaddexp2": "logaddexp2",
    "xlog1py": "special_xlog1py",
    "xlogy": "xlogy special_xlogy",
}.items():
    ROWS.row(*(f"aten::{name}" for name in _names.split()))(_pair(_type))


@ROWS.row("aten::polygamma", "aten::special_polygamma")
def polygamma(t: Translator, n: int, input: Value) -> Value:
    """Return a derivative of digamma."""
    x = t.cast(input, t.dtype())
    written = t.block.append_op(
        "polygamma", {"x": x}, {}, {"n": n}
    )  # `n` has a different meaning in t.op
    t.mark([x], written.output_names())
    return t.block.var(written.output("out")[0])


@ROWS.row("aten::mvlgamma", "aten::special_multigammaln")
def mvlgamma(t: Translator, input: Value, p: int) -> Value:
    """Return the logarithm of the multivariate gamma function."""
    x = t.cast(input, t.dtype())
    parts = [t.op("lgamma", t.op("scale", x, bias=-j / 2)) for j in range(p)]
    return t.op("scale", t.op("add_n", parts), bias=p * (p - 1) / 4 * math.log(math.pi))


@ROWS.row("aten::signbit")
def signbit(t: Translator, input: Value) -> Value:
    """Return whether the sign bit is set."""
    return t.op("signbit", t.cast(input, "uint8") if input.dtype == "bool" else input)


@ROWS.row("aten::special_entr")
def entropy(t: Translator, input: Value) -> Value:
    """Return the input times its negative logarithm: 0 at 0, -inf below."""
    x = t.cast(input, t.dtype())
    (below,) = t.promote(-math.inf)
    inner = t.op("negative", t.op("xlogy", x, x))
    return t.op("where", t.op("less", x, 0), below, inner)


@ROWS.row("aten::ldexp")
def ldexp(t: Translator, input: Value, other: Value) -> Value:
    """Return `input` · 2^`other`."""
    x, y = t.promote(input, other)
    return t.op("multiply", x, t.op("power", t.full(2, (), x.dtype), y))


@ROWS.row("aten::heaviside")
def heaviside(t: Translator, input: Value, values: Value) -> Value:
    """Return 0 below 0, 1 above 0, and `values` at 0."""
    x, at_zero = t.promote(input, values)
    step = t.cast(t.op("greater", x, 0), x.dtype)
    return t.op("where", t.op("equal", x, 0), at_zero, step)


@ROWS.row("aten::nan_to_num")
def nan_to_num(
    t: Translator, input: Value, nan: Value = None, posinf: Value = None, neginf: Value = None
) -> Value:
    """Replace NaN and infinities in the input."""
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
    """Return whether elements occur in another tensor."""
    dtype = t.promoted_dtype(elements, test_elements)
    x, others = t.promote(elements, test_elements, dtype=dtype)
    x = t.op("unsqueeze", x, axis=[rank(x)])
    others = with_shape(t, others, [math.prod(t.shape(others))])
    found = t.op("any", t.op("equal", x, others), axis=[rank(x) - 1])
    return t.op("logical_not", found) if invert else found


@ROWS.row("aten::linalg_cross")
def cross(t: Translator, input: Value, other: Value, dim: int = -1) -> Value:
    """Return the cross product along an axis."""
    x, y = broadcast(t, *t.promote(input, other))
    return t.op("cross", x, y, axis=dim)


@ROWS.row("aten::linalg_inv", "aten::inverse")
def inverse(t: Translator, A: Value = None, input: Value = None) -> Value:  # noqa: N803
    """Return the inverses of matrices."""
    return t.op("inverse", _matrices(t, input if A is None else A))


@ROWS.row("aten::linalg_cholesky", "aten::cholesky")
def cholesky(t: Translator, input: Value, upper: bool = False) -> Value:
    """Return the Cholesky factors of matrices."""
    return t.op("cholesky", _matrices(t, input), upper=upper)


@ROWS.row("aten::linalg_solve")
def solve(t: Translator, A: Value, B: Value, left: bool = True) -> Value:  # noqa: N803
    """Return the solution X of `A` X = `B`."""
    if not left or rank(B) < 2 or (rank(B) == rank(A) - 1 and t.shape(B) == t.shape(A)[:-1]):
        raise Decline(f"left={left}, shapes {t.shape(A)} and {t.shape(B)}")
    return t.op("solve", _matrices(t, A), B)


@ROWS.row("aten::linalg_solve_triangular")
def solve_triangular(
    t: Translator,
    input: Value,
    B: Value,  # noqa: N803
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Value:
    """Return the solution X of `input` X = `B`, where the input is triangular."""
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
    """Return the solution X of `A` X = `input`, where A is triangular, and a copy of A."""
    attrs = {"upper": upper, "transpose": transpose, "unit_diagonal": unitriangular}
    return t.op("triangular_solve", A, input, **attrs), t.op("assign", A)


def _matrices(t: Translator, x: ow.Variable) -> ow.Variable:
    if 0 in t.shape(x):
        raise Decline(f"matrices are empty, got {t.shape(x)}")
    return x
