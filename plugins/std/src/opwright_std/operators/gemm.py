"""gemm and bilinear: matrix products composed of matmul and einsum."""

from __future__ import annotations

from opwright.op import (
    BodyContext,
    InferContext,
    OpMaker,
    dims_match,
    format_shape,
    merge_dims,
)
from opwright_std.numerics.broadcasting import require_broadcast
from opwright_std.numerics.dtypes import FLOATS


def _matrix(ctx: InferContext, slot: str) -> tuple[int, int]:
    shape = ctx.input(slot).shape
    ctx.require(len(shape) == 2, f"{slot} must be a matrix, got {format_shape(shape)}")
    return (shape[1], shape[0]) if ctx.attr(f"transpose_{slot}") else (shape[0], shape[1])


def _gemm_shape(ctx: InferContext) -> None:
    """The output is [m, n] for a [m, k] and b [k, n], to which c must broadcast."""
    a, b = _matrix(ctx, "a"), _matrix(ctx, "b")
    if not dims_match(a[1], b[0]):
        ctx.fail(
            f"the inner dimensions must be equal, got {a[1]} in a and {b[0]} in b; transpose_a "
            f"and transpose_b transpose the matrices"
        )
    out: tuple[int, ...] = (a[0], b[1])
    if ctx.has_input("c"):
        require_broadcast(ctx, "c", out, "{}")
    ctx.set_output("out", out)


def _gemm_body(b: BodyContext) -> None:
    alpha, beta = b.attr("alpha"), b.attr("beta")
    last = {"out": b.output("out") or ""}
    turned = {f"transpose_{x}": b.attr(f"transpose_{a}") for x, a in (("x", "a"), ("y", "b"))}
    has_c = b.has_input("c") and beta != 0  # c is not read then: it may be NaN
    is_last = not has_c and alpha == 1
    factors = {"x": b.input("a"), "y": b.input("b")}
    name = b.emit("matmul", factors, last if is_last else None, turned)
    if alpha != 1:
        name = b.emit("scale", {"x": name}, None if has_c else last, {"scale": alpha})
    if has_c:
        c = b.input("c")
        if beta != 1:
            c = b.emit("scale", {"x": c}, attrs={"scale": beta})
        b.emit("add", {"x": name, "y": c}, last)


GEMM = (
    OpMaker("gemm")
    .add_comment(
        "General matrix product, out = alpha * (a @ b) + beta * c, as ONNX's Gemm. An absent c "
        "counts as 0, and with beta = 0 c is not read."
    )
    .add_input("a", "[m, k], or [k, m] with transpose_a")
    .dtypes(*FLOATS)
    .add_input("b", "[k, n], or [n, k] with transpose_b; dtype of a")
    .same_dtype_as("a")
    .add_input("c", "broadcasts to [m, n]; dtype of a")
    .same_dtype_as("a")
    .as_optional()
    .add_output("out", "[m, n], dtype of a")
    .same_dtype_as("a")
    .add_attr("alpha", float, "factor of the product")
    .default(1.0)
    .add_attr("beta", float, "factor of c")
    .default(1.0)
    .add_attr("transpose_a", bool, "whether a is transposed first")
    .default(False)
    .add_attr("transpose_b", bool, "whether b is transposed first")
    .default(False)
    .build(infer_shape=_gemm_shape, body=_gemm_body)
)


def _bilinear_shape(ctx: InferContext) -> None:
    """The output has the axes of x and y without the last, then the first axis of weight."""
    x, y, weight = (ctx.input(slot).shape for slot in ("x", "y", "weight"))
    ctx.require(len(weight) == 3, f"weight must be [outputs, n_x, n_y], got {format_shape(weight)}")
    for slot, shape, dim in (("x", x, weight[1]), ("y", y, weight[2])):
        if not shape or not dims_match(shape[-1], dim):
            ctx.fail(f"the last axis of {slot} must have {dim} elements, got {format_shape(shape)}")
    same = len(x) == len(y) and all(map(dims_match, x[:-1], y[:-1]))
    ctx.require(
        same, f"x and y must have equal leading axes, got {format_shape(x)} and {format_shape(y)}"
    )
    columns = weight[0]
    if ctx.has_input("bias"):
        ctx.require_shape("bias", (columns,))
        columns = merge_dims(columns, ctx.input("bias").shape[0])
    ctx.set_output("out", (*map(merge_dims, x[:-1], y[:-1]), columns))


def _bilinear_body(b: BodyContext) -> None:
    out = {"out": b.output("out") or ""}
    has_bias = b.has_input("bias")
    operands = [b.inputs("x")[0], b.inputs("weight")[0], b.inputs("y")[0]]
    equation = {"equation": "...i,kij,...j->...k"}
    name = b.emit("einsum", {"x": operands}, None if has_bias else out, equation)
    if has_bias:
        b.emit("add", {"x": name, "y": b.input("bias")}, out)


BILINEAR = (
    OpMaker("bilinear")
    .add_comment(
        "Bilinear layer, out[..., k] = sum(x[..., i] * weight[k, i, j] * y[..., j]) + bias[k], "
        "summed over i and j."
    )
    .add_input("x", "[..., n_x], float")
    .dtypes(*FLOATS)
    .add_input("y", "[..., n_y], the other axes as in x; dtype of x")
    .same_dtype_as("x")
    .add_input("weight", "[outputs, n_x, n_y], dtype of x")
    .same_dtype_as("x")
    .add_input("bias", "[outputs], dtype of x; absent counts as 0")
    .same_dtype_as("x")
    .as_optional()
    .add_output("out", "[..., outputs], dtype of x")
    .same_dtype_as("x")
    .build(infer_shape=_bilinear_shape, body=_bilinear_body)
)
