"""Fully connected layer: matrix product, bias and activation in one operator."""

from __future__ import annotations

from opwright.op import (
    BodyContext,
    GradientContext,
    InferContext,
    OpMaker,
    dims_match,
    format_shape,
    merge_dims,
    numel,
)
from opwright_std.numerics.dtypes import FLOATS

# Only activations with a gradient computed from their output, since fc does not save their input.
ACTIVATIONS = ("", "relu", "sigmoid", "tanh", "softmax")


def _fc_shape(ctx: InferContext) -> None:
    """The output has the first num_flatten_dims axes of x, then one for the columns of weight."""
    x, weight = ctx.input("x").shape, ctx.input("weight").shape
    kept = ctx.attr("num_flatten_dims")
    turned = ctx.attr("transpose_weight")
    if len(weight) != 2:
        wanted = "[outputs, inputs]" if turned else "[inputs, outputs]"
        ctx.fail(f"weight must be {wanted}, got {format_shape(weight)}")
    if len(x) <= kept:
        ctx.fail(f"x must have more than num_flatten_dims={kept} dimensions, got {format_shape(x)}")
    rows, columns = weight[::-1] if turned else weight
    if not dims_match(numel(x[kept:]), rows):
        ctx.fail(
            f"weight must have {numel(x[kept:])} {'columns' if turned else 'rows'}, the number "
            f"of elements of x {format_shape(x)} after axis {kept - 1}, got {format_shape(weight)}"
        )
    if ctx.has_input("bias"):
        ctx.require_shape("bias", (columns,))
        columns = merge_dims(columns, ctx.input("bias").shape[0])
    ctx.set_output("out", (*x[:kept], columns))


def _flatten(ctx: BodyContext | GradientContext) -> str:
    """Return x with axis num_flatten_dims and later axes flattened, or x if it is the last."""
    x, kept = ctx.inputs("x")[0], ctx.attr("num_flatten_dims")
    if _is_flat(ctx):
        return x
    # The kept axes (0 copies them) are followed by the number of inputs, if known.
    return ctx.emit("reshape", {"x": x}, attrs={"shape": [0] * kept + [_weight_dims(ctx)[0]]})


def _is_flat(ctx: BodyContext | GradientContext) -> bool:
    meta = ctx.meta(ctx.inputs("x")[0])
    return meta is not None and len(meta.shape) == ctx.attr("num_flatten_dims") + 1


def _weight_dims(ctx: BodyContext | GradientContext) -> tuple[int, int]:
    """Return the numbers of inputs and outputs."""
    meta = ctx.meta(ctx.inputs("weight")[0])
    # A weight from a file may have a wrong rank, which is not rejected while x has no shape.
    if meta is None or len(meta.shape) != 2:
        return -1, -1
    rows, columns = meta.shape
    return (columns, rows) if ctx.attr("transpose_weight") else (rows, columns)


def _fc_body(b: BodyContext) -> None:
    activation, name = b.attr("activation"), _flatten(b)
    steps: list[tuple[str, str | None]] = [("matmul", b.input("weight"))]
    if b.has_input("bias"):
        steps.append(("add", b.input("bias")))
    if activation:
        steps.append((activation, None))
    for op_type, other in steps:
        inputs = {"x": name} if other is None else {"x": name, "y": other}
        attrs = {"transpose_y": b.attr("transpose_weight")} if op_type == "matmul" else {}
        # Only the last operator writes the declared output.
        out = {"out": b.output("out") if op_type == steps[-1][0] else 1}
        name = b.emit(op_type, inputs, out, attrs)


def _fc_gradient(g: GradientContext) -> None:
    out, activation = g.output("out"), g.attr("activation")
    (grad,) = g.filled_output_grads("out")
    if activation:
        # The gradient of an activation reads the output of the activation, and only the shape of
        # its input.
        inputs = {"x": out, "out": out, "out_grad": grad}
        grad = g.emit(f"{activation}_grad", inputs, {"x_grad": 1})
    if g.wants("bias"):
        g.set_input_grad("bias", g.emit("sum_like", {"x": grad, "like": g.input("bias")}))
    if g.wants("weight"):
        g.set_input_grad("weight", _weight_grad(g, grad))
    if g.wants("x"):
        inputs = {"x": grad, "y": g.input("weight")}
        x_grad = g.emit("matmul", inputs, attrs={"transpose_y": not g.attr("transpose_weight")})
        if not _is_flat(g):
            x_grad = g.emit("reshape_like", {"x": x_grad, "like": g.input("x")})
        g.set_input_grad("x", x_grad)


def _weight_grad(g: GradientContext, grad: str) -> str:
    flat, (rows, columns) = _flatten(g), _weight_dims(g)
    kept = g.attr("num_flatten_dims")
    if kept > 1 and min(rows, columns) > 0:
        # One product over all rows replaces the sum of one product per leading index.
        flat = g.emit("reshape", {"x": flat}, attrs={"shape": [-1, rows]})
        grad = g.emit("reshape", {"x": grad}, attrs={"shape": [-1, columns]})
        kept = 1
    factors = (grad, flat) if g.attr("transpose_weight") else (flat, grad)
    inputs = dict(zip("xy", factors, strict=True))
    product = g.emit("matmul", inputs, attrs={"transpose_x": True})
    if kept == 1:
        return product
    return g.emit("sum_like", {"x": product, "like": g.input("weight")})


FC = (
    OpMaker("fc")
    .add_comment(
        "Fully connected layer, out = activation(x2 @ weight + bias), where x2 is x with axis "
        "num_flatten_dims and later axes flattened. softmax is taken along the last axis. With "
        "transpose_weight the weight is [outputs, inputs], as in PyTorch's Linear."
    )
    .add_input("x", "float, num_flatten_dims axes and at least one more")
    .dtypes(*FLOATS)
    .add_input(
        "weight",
        "[inputs, outputs], inputs being the product of the flattened axes; with "
        "transpose_weight [outputs, inputs]",
    )
    .same_dtype_as("x")
    .add_input("bias", "[outputs]; absent counts as 0")
    .same_dtype_as("x")
    .as_optional()
    .add_output("out", "the first num_flatten_dims axes of x, then [outputs]; dtype of x")
    .same_dtype_as("x")
    .add_attr("num_flatten_dims", int, "number of leading axes of x that out keeps")
    .default(1)
    .at_least(1)
    .add_attr("activation", str, "operator applied to the sum; an empty string for none")
    .default("")
    .one_of(*ACTIVATIONS)
    .add_attr("transpose_weight", bool, "whether weight is transposed first")
    .default(False)
    .as_added()
    .build(infer_shape=_fc_shape, gradient=_fc_gradient, body=_fc_body)
)
