"""diag and trace: what lies on a diagonal of a matrix, made of others."""

from __future__ import annotations

from opwright.errors import ShapeError
from opwright.op import INT_DTYPES, BodyContext, InferContext, OpMaker, Shape
from opwright_std.numerics.dtypes import FLOATS, NUMBERS
from opwright_std.operators.triangle import FARTHEST


def _length(rows: int, columns: int, k: int) -> int:
    """Return how many elements diagonal `k` has; -1 where that is unknown."""
    if -1 in (rows, columns):
        return -1
    return max(min(rows + min(k, 0), columns - max(k, 0)), 0)


def _diagonal(b: BodyContext, outs: dict[str, str | None] | None = None) -> str:
    """Write diagonal k of the matrices in the last two axes: every (columns + 1)-th element."""
    shape, k = _shape_of(b), b.attr("k")
    *stacks, rows, columns = shape
    count = _length(rows, columns, k)
    if count < 0 or stacks.count(-1) > 1:
        raise ShapeError(
            f"{b.type}: the elements of a diagonal depend on the shape of x, got {list(shape)}; "
            "declare the dimensions of the matrix"
        )
    if count == 0 or 0 in stacks:
        attrs = {"shape": [*stacks, count], "value": 0.0, "dtype": _dtype_of(b)}
        return b.emit("fill", {}, outs, attrs)
    flat = b.emit("reshape", {"x": b.input("x")}, attrs={"shape": [*stacks, rows * columns]})
    start = k if k >= 0 else -k * columns
    attrs = {
        "axes": [len(stacks)],
        "starts": [start],
        "ends": [start + (count - 1) * (columns + 1) + 1],
        "steps": [columns + 1],
    }
    return b.emit("slice", {"x": flat}, outs, attrs)


def _shape_of(b: BodyContext) -> Shape:
    meta = b.meta(b.inputs("x")[0])
    return () if meta is None else meta.shape


def _dtype_of(b: BodyContext) -> str:
    meta = b.meta(b.inputs("x")[0])
    return "float32" if meta is None else meta.dtype


def _diag_shape(ctx: InferContext) -> None:
    """The output is a square matrix with the vector x on diagonal k, or that of the matrix x."""
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
    if len(_shape_of(b)) == 2:
        _diagonal(b, out)
        return
    # The vector in every row, and zeros off the diagonal: nothing is multiplied, inf stays inf.
    (n,), k = _shape_of(b), b.attr("k")
    if n <= 0:
        _fill_square(b, n, out)
        return
    row = b.emit("unsqueeze", {"x": b.input("x")}, attrs={"axis": [0]})
    rows = b.emit("expand", {"x": row}, attrs={"shape": [n, n]})
    square = b.emit("tril", {"x": b.emit("triu", {"x": rows})}, None if k else out)
    if k:
        before, behind = max(k, 0), max(-k, 0)
        b.emit("pad", {"x": square}, out, {"paddings": [behind, before, before, behind]})


def _fill_square(b: BodyContext, n: int, out: dict[str, str | None]) -> None:
    if n < 0:
        raise ShapeError("diag: the length of the vector must be known, got [-1]; declare it")
    side = abs(b.attr("k"))
    attrs = {"shape": [side, side], "value": 0.0, "dtype": _dtype_of(b)}
    b.emit("fill", {}, out, attrs)


def _diagonal_maker(op_type: str, comment: str, x: str) -> OpMaker:
    return (
        OpMaker(op_type)
        .add_comment(comment)
        .add_input("x", x)
        .dtypes(*NUMBERS)
        .add_attr("k", int, "the diagonal: 0 the main one, above 0 right of it, below 0 left")
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
    .add_output("out", "a matrix of a vector, and the other way round; dtype of x")
    .same_dtype_as("x")
    .build(infer_shape=_diag_shape, body=_diag_body)
)


def _trace_shape(ctx: InferContext) -> None:
    """The output has the shape of x without the last two axes."""
    x = ctx.input("x")
    ctx.require(len(x.shape) >= 2, f"x must have at least 2 axes, got {len(x.shape)}")
    dtype = x.dtype
    if dtype in INT_DTYPES:
        dtype = "uint64" if dtype.startswith("u") else "int64"
    ctx.set_output("out", x.shape[:-2], dtype)


def _trace_body(b: BodyContext) -> None:
    b.emit("sum", {"x": _diagonal(b)}, {"out": b.output("out")}, {"axis": [-1]})


TRACE = (
    _diagonal_maker(
        "trace",
        "Sum of diagonal k of the matrices in the last two axes, out = sum(x[..., i, i + k]). "
        "Whole numbers are taken in 64 bits: the result is int64, or uint64 of unsigned ones.",
        "matrices in the last two axes",
    )
    .add_output("out", "shape of x without the last two axes; a float as x is")
    .dtypes(*FLOATS, "int64", "uint64")
    .build(infer_shape=_trace_shape, body=_trace_body)
)
