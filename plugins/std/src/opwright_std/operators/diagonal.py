"""diag and trace: diagonals of matrices, composed of other operators."""

from __future__ import annotations

from opwright.errors import ShapeError
from opwright.op import (
    BodyContext,
    InferContext,
    OpMaker,
    Shape,
    grad_op,
    linear_in,
)
from opwright_std.compositions.expression import dtype_of, shape_of
from opwright_std.numerics.dtypes import FLOATS, NUMBERS, accumulated_dtype
from opwright_std.operators.triangle import FARTHEST


def _length(rows: int, columns: int, k: int) -> int:
    """Return the length of diagonal `k`, -1 if unknown."""
    if -1 in (rows, columns):
        return -1
    return max(min(rows + min(k, 0), columns - max(k, 0)), 0)


def _diagonal(
    b: BodyContext, x: str | None, shape: Shape, k: int, outs: dict[str, str | None] | None = None
) -> str:
    """Emit diagonal k of the matrices in the last two axes: every (columns + 1)-th element."""
    *stacks, rows, columns = shape
    count = _length(rows, columns, k)
    if count < 0:
        raise ShapeError(
            f"{b.type}: the elements of a diagonal depend on the shape of x, got {list(shape)}; "
            "declare the dimensions of the matrix"
        )
    if count == 0 or 0 in stacks:
        attrs = {"shape": [*stacks, count], "value": 0.0, "dtype": dtype_of(b)}
        return b.emit("fill", {}, outs, attrs)
    flat = b.emit("flatten", {"x": x}, attrs={"start_axis": len(stacks)})
    start = k if k >= 0 else -k * columns
    attrs = {
        "axes": [len(stacks)],
        "starts": [start],
        "ends": [start + (count - 1) * (columns + 1) + 1],
        "steps": [columns + 1],
    }
    return b.emit("slice", {"x": flat}, outs, attrs)


def _diag_shape(ctx: InferContext) -> None:
    """The output is a square matrix with vector x on diagonal k, or diagonal k of matrix x."""
    shape, k = ctx.input("x").shape, ctx.attr("k")
    ctx.require(len(shape) in (1, 2), f"x must be a vector or a matrix, got {len(shape)} axes")
    if len(shape) == 2:
        ctx.set_output("out", (_length(*shape, k),))
        return
    side = shape[0] + abs(k) if shape[0] >= 0 else -1
    ctx.require(side < 2**31, f"the matrix must have less than 2 ** 31 rows, got {side}")
    ctx.set_output("out", (side, side))


def _diag_body(b: BodyContext) -> None:
    out: dict[str, str | None] = {"out": b.output("out")}
    shape, k = shape_of(b, "x"), b.attr("k")
    if len(shape) == 2:
        _diagonal(b, b.input("x"), shape, k, out)
        return
    side = shape[0] + abs(k)
    _on_diagonal(b, b.input("x"), shape[0], (side, side), k, out)


def _on_diagonal(
    b: BodyContext, x: str | None, n: int, shape: Shape, k: int, out: dict[str, str | None]
) -> None:
    """Emit a matrix with a vector on diagonal k and zeros elsewhere."""
    if n < 0:
        raise ShapeError(f"{b.type}: the length of the vector must be known, got [-1]; declare it")
    rows, columns = shape
    if n == 0:
        attrs = {"shape": [rows, columns], "value": 0.0, "dtype": dtype_of(b)}
        b.emit("fill", {}, out, attrs)
        return
    # Repeat the vector in every row, then zero all elements off the diagonal by selection, since
    # inf * 0 would be NaN.
    row = b.emit("unsqueeze", {"x": x}, attrs={"axis": [0]})
    square = b.emit("expand", {"x": row}, attrs={"shape": [n, n]})
    above, before = max(-k, 0), max(k, 0)
    paddings = [above, rows - n - above, before, columns - n - before]
    upper = b.emit("triu", {"x": square})
    square = b.emit("tril", {"x": upper}, None if any(paddings) else out)
    if any(paddings):
        b.emit("pad", {"x": square}, out, {"paddings": paddings})


def _diag_grad_body(b: BodyContext) -> None:
    """Compositions are expanded when the plan is built, since they depend on shapes."""
    out: dict[str, str | None] = {"out": b.output("x_grad")}
    shape, k, grad = shape_of(b, "x"), b.attr("k"), b.input("out_grad")
    if len(shape) == 2:
        _on_diagonal(b, grad, _length(*shape, k), shape, k, out)
    else:
        side = shape[0] + abs(k)
        _diagonal(b, grad, (side, side), k, out)


def _diagonal_maker(op_type: str, comment: str, x: str) -> OpMaker:
    return (
        OpMaker(op_type)
        .add_comment(comment)
        .add_input("x", x)
        .dtypes(*NUMBERS, "bool")
        .add_attr("k", int, "the diagonal: 0 main, positive above it, negative below it")
        .default(0)
        .between(-FARTHEST, FARTHEST)
    )


DIAG = (
    _diagonal_maker(
        "diag",
        "A square matrix with the vector x on diagonal k and zeros elsewhere, or diagonal k of the "
        "matrix x, as numpy.diag.",
        "a vector or a matrix",
    )
    .add_output("out", "a matrix for a vector, a vector for a matrix; dtype of x")
    .same_dtype_as("x")
    .build(
        infer_shape=_diag_shape,
        gradient=grad_op("diag_grad", gradient=linear_in("x"), body=_diag_grad_body),
        body=_diag_body,
    )
)


def _trace_shape(ctx: InferContext) -> None:
    """The output has the shape of x without the last two axes."""
    x = ctx.input("x")
    ctx.require(len(x.shape) >= 2, f"x must have at least 2 axes, got {len(x.shape)}")
    ctx.set_output("out", x.shape[:-2], accumulated_dtype(x.dtype))


def _trace_body(b: BodyContext) -> None:
    x, shape, k, out = b.input("x"), shape_of(b, "x"), b.attr("k"), {"out": b.output("out")}
    if -1 in shape:
        # If dimensions are unknown, sums the whole matrix with zeros off the diagonal.
        upper = b.emit("triu", {"x": x}, attrs={"k": k})
        kept = b.emit("tril", {"x": upper}, attrs={"k": k})
        b.emit("sum", {"x": kept}, out, {"axis": [-2, -1]})
        return
    b.emit("sum", {"x": _diagonal(b, x, shape, k)}, out, {"axis": [-1]})


TRACE = (
    _diagonal_maker(
        "trace",
        "Sum of diagonal k of the matrices in the last two axes, out = sum(x[..., i, i + k]). "
        "Integers accumulate in 64 bits: the result is int64, or uint64 for unsigned ones.",
        "matrices in the last two axes",
    )
    .add_output("out", "shape of x without the last two axes; dtype of x for floats")
    .dtypes(*FLOATS, "int64", "uint64")
    .build(infer_shape=_trace_shape, body=_trace_body)
)
