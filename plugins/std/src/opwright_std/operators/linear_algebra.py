"""inverse, cholesky, solve and triangular_solve, by LAPACK through NumPy."""

from __future__ import annotations

import numpy as np

from opwright.op import (
    BodyContext,
    GradientContext,
    InferContext,
    OpMaker,
    Shape,
    broadcast_shapes,
    dims_match,
    format_shape,
)
from opwright_std.numerics.dtypes import WIDE, Array


def inverse(x: Array, out: Array) -> None:
    try:
        np.copyto(out, np.linalg.inv(x))
    except np.linalg.LinAlgError as error:
        raise _singular("inverse", "x") from error


def cholesky(x: Array, out: Array, *, upper: bool) -> None:
    try:
        lower = np.linalg.cholesky(x / 2 + x.swapaxes(-1, -2) / 2)
    except np.linalg.LinAlgError as error:
        raise ValueError(
            "cholesky: x must be positive definite, got a matrix with an eigenvalue <= 0; add a "
            "small multiple of the identity matrix"
        ) from error
    np.copyto(out, lower.swapaxes(-1, -2) if upper else lower)


def solve(a: Array, b: Array, out: Array) -> None:
    try:
        np.copyto(out, np.linalg.solve(a, b))
    except np.linalg.LinAlgError as error:
        raise _singular("solve", "a") from error


def triangular_solve(
    a: Array, b: Array, out: Array, *, upper: bool, transpose: bool, unit_diagonal: bool
) -> None:
    matrix = a.swapaxes(-1, -2) if transpose else a
    np.copyto(out, b)
    rows = range(matrix.shape[-1])
    for i in reversed(rows) if upper != transpose else rows:
        known = slice(i + 1, None) if upper != transpose else slice(None, i)
        out[..., i, :] -= (matrix[..., i, None, known] @ out[..., known, :])[..., 0, :]
        if not unit_diagonal:
            out[..., i, :] /= matrix[..., i, i, None]


def _singular(op_type: str, slot: str) -> ValueError:
    return ValueError(
        f"{op_type}: {slot} must be invertible, got a singular matrix; add a small multiple of "
        f"the identity matrix"
    )


def require_square(ctx: InferContext, slot: str) -> Shape:
    shape = ctx.input(slot).shape
    if len(shape) < 2 or not dims_match(shape[-1], shape[-2]):
        ctx.fail(f"{slot} must be square matrices in the last two axes, got {format_shape(shape)}")
    return shape


def _square_shape(ctx: InferContext) -> None:
    """The output has the shape of x."""
    ctx.set_output("out", require_square(ctx, "x"))


def _solution_shape(ctx: InferContext) -> None:
    """The output has the shape of b, with its batch axes broadcast with the batch axes of a."""
    a, b = require_square(ctx, "a"), ctx.input("b").shape
    is_left = ctx.op_type == "solve" or ctx.attr("left")
    if len(b) < 2 or not dims_match(a[-1], b[-2] if is_left else b[-1]):
        wanted = f"[..., {a[-1]}, columns]" if is_left else f"[..., rows, {a[-1]}]"
        way = (
            "unsqueeze turns a vector into a column" if is_left else "left=True solves a @ out = b"
        )
        ctx.fail(f"b must be {wanted} for a {format_shape(a)}, got {format_shape(b)}; {way}")
    ctx.set_output("out", (*broadcast_shapes(a[:-2], b[:-2], ctx), *b[-2:]))


def _product(g: GradientContext, x: str | None, y: str | None, turned: str = "") -> str:
    attrs = {f"transpose_{side}": side in turned for side in "xy"}
    return g.emit("matmul", {"x": x, "y": y}, attrs=attrs)


def _negative(g: GradientContext, name: str) -> str:
    return g.emit("negative", {"x": name})


def _turned(g: GradientContext | BodyContext, name: str | None) -> str:
    """Emit the transposed matrices."""
    meta = g.meta(name or "")
    rank = 2 if meta is None else len(meta.shape)
    axes = [*range(rank - 2), rank - 1, rank - 2]
    return g.emit("transpose", {"x": name}, attrs={"axes": axes})


def _like(g: GradientContext, name: str, slot: str) -> str:
    return g.emit("sum_like", {"x": name, "like": g.input(slot)})


def _inverse_gradient(g: GradientContext) -> None:
    out, grad = g.output("out"), g.output_grad("out")
    g.set_input_grad("x", _negative(g, _product(g, _product(g, out, grad, "x"), out, "y")))


def _cholesky_gradient(g: GradientContext) -> None:
    """S = L^-T P(L^T G) L^-1, symmetric; P selects the lower triangle and half of the diagonal."""
    lower, grad = g.output("out"), g.output_grad("out")
    if g.attr("upper"):
        lower, grad = _turned(g, lower), _turned(g, grad)
    inner = _product(g, lower, grad, "x")
    below = g.emit("tril", {"x": inner}, attrs={"k": -1})
    both = g.emit("add", {"x": below, "y": g.emit("tril", {"x": inner})})
    half = g.emit("scale", {"x": both}, attrs={"scale": 0.5})
    attrs = {"upper": False, "transpose": True}
    left = g.emit("triangular_solve", {"a": lower, "b": half}, attrs=attrs)
    made = g.emit("triangular_solve", {"a": lower, "b": _turned(g, left)}, attrs=attrs)
    total = g.emit("add", {"x": made, "y": _turned(g, made)})
    g.set_input_grad("x", g.emit("scale", {"x": total}, attrs={"scale": 0.5}))


def _solve_gradient(g: GradientContext) -> None:
    turned = {"a": _turned(g, g.input("a")), "b": g.output_grad("out")}
    share = g.emit("solve", turned)
    if g.wants("b"):
        g.set_input_grad("b", _like(g, share, "b"))
    if g.wants("a"):
        grad = _negative(g, _product(g, share, g.output("out"), "y"))
        g.set_input_grad("a", _like(g, grad, "a"))


def _triangular_gradient(g: GradientContext) -> None:
    upper, transpose, is_left = g.attr("upper"), g.attr("transpose"), g.attr("left")
    attrs = {**g.attrs, "transpose": not transpose}
    share = g.emit("triangular_solve", {"a": g.input("a"), "b": g.output_grad("out")}, attrs=attrs)
    if g.wants("b"):
        g.set_input_grad("b", _like(g, share, "b"))
    if g.wants("a"):
        left, right = g.output("out"), share
        if transpose != is_left:
            left, right = right, left
        grad = _negative(g, _product(g, left, right, "y" if is_left else "x"))
        k = int(g.attr("unit_diagonal"))
        side = {"k": k} if upper else {"k": -k}
        kept = g.emit("triu" if upper else "tril", {"x": grad}, attrs=side)
        g.set_input_grad("a", _like(g, kept, "a"))


def _triangular_body(b: BodyContext) -> bool | None:
    """Solve from the right by transposition: x a = b is a^T x^T = b^T."""
    if b.attr("left"):
        return False
    attrs = {**b.attrs, "left": True, "transpose": not b.attr("transpose")}
    inputs = {"a": b.input("a"), "b": _turned(b, b.input("b"))}
    b.set_output("out", _turned(b, b.emit("triangular_solve", inputs, attrs=attrs)))
    return None


def _of_square(op_type: str, comment: str, out: str) -> OpMaker:
    return (
        OpMaker(op_type)
        .add_comment(comment)
        .add_input("x", "square matrices in the last two axes")
        .dtypes(*WIDE)
        .add_output("out", out)
        .same_dtype_as("x")
    )


INVERSE = _of_square(
    "inverse", "Inverse matrices: x @ out is the identity matrix.", "shape and dtype of x"
).build(infer_shape=_square_shape, gradient=_inverse_gradient)

CHOLESKY = (
    _of_square(
        "cholesky",
        "Cholesky factors of symmetric positive definite matrices, x = out @ transpose(out) with "
        "out lower triangular, or x = transpose(out) @ out with upper. An asymmetric x is "
        "replaced by (x + transpose(x)) / 2.",
        "triangular matrices, shape and dtype of x",
    )
    .add_attr("upper", bool, "whether out is upper triangular")
    .default(False)
    .build(infer_shape=_square_shape, gradient=_cholesky_gradient)
)


def _system(op_type: str, comment: str, right: str = "") -> OpMaker:
    return (
        OpMaker(op_type)
        .add_comment(comment)
        .add_input("a", "square matrices [..., n, n]")
        .dtypes(*WIDE)
        .add_input("b", f"[..., n, columns]{right}, the axes ... broadcast; dtype of a")
        .same_dtype_as("a")
        .add_output("out", f"[..., n, columns]{right}, dtype of a")
        .same_dtype_as("a")
    )


SOLVE = _system("solve", "Solution of the linear equations a @ out = b.").build(
    infer_shape=_solution_shape, gradient=_solve_gradient
)

TRIANGULAR_SOLVE = (
    _system(
        "triangular_solve",
        "Solution of the linear equations a @ out = b with a triangular matrix a, by "
        "substitution; without left, out @ a = b. The other triangle of a is not read, and a 0 on "
        "the diagonal results in infinities.",
        ", without left [..., rows, n]",
    )
    .add_attr("upper", bool, "whether a is upper triangular")
    .default(True)
    .add_attr("transpose", bool, "whether a is transposed first: upper refers to a before that")
    .default(False)
    .add_attr("unit_diagonal", bool, "whether the diagonal is taken as 1 and not read")
    .default(False)
    .add_attr("left", bool, "whether a multiplies out from the left")
    .default(True)
    .as_added()
    .build(infer_shape=_solution_shape, gradient=_triangular_gradient, body=_triangular_body)
)
