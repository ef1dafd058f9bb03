"""index_add, index_copy, index_fill and index_put: slices updated at indices."""

from __future__ import annotations

from collections.abc import Sequence

from opwright.op import (
    BodyContext,
    GradientContext,
    InferContext,
    OpMaker,
    Shape,
    broadcast_shapes,
    format_shape,
    normalize_axis,
)
from opwright_std.compositions.expression import Expression, read
from opwright_std.numerics.broadcasting import require_broadcast
from opwright_std.numerics.dtypes import INDICES, ORDERED
from opwright_std.operators.reduction import known_meta


def _along_axis(ctx: InferContext) -> int:
    shape, index = ctx.input("x").shape, ctx.input("index").shape
    ctx.require(len(index) == 1, f"index must have 1 axis, got {format_shape(index)}")
    return normalize_axis(ctx, ctx.attr("axis"), len(shape), scalar=True)


def _updated_shape(ctx: InferContext) -> None:
    """The output has the shape of x; updates has the length of index along the axis."""
    axis, shape = _along_axis(ctx), ctx.input("x").shape
    ctx.require_shape("updates", (*shape[:axis], ctx.input("index").shape[0], *shape[axis + 1 :]))
    ctx.set_output("out", shape)


def _filled_shape(ctx: InferContext) -> None:
    """The output has the shape of x, whose dtype must represent the value."""
    _along_axis(ctx)
    ctx.require_held("value", ctx.input("x").dtype)
    ctx.set_output("out", ctx.input("x").shape)


def _scatter_slices(b: BodyContext, updates: Expression, reduction: str) -> None:
    """Emit x with the slices at indices along an axis replaced or increased."""
    shape = known_meta(b).shape
    rank = max(1, len(shape))
    axis = b.attr("axis") % rank
    x, rows = read(b, "x"), read(b, "index").then("unsqueeze", axis=[1])
    x = x if shape else x.then("unsqueeze", axis=[0])
    front = [axis, *(other for other in range(rank) if other != axis)]
    if axis:
        x, updates = x.then("transpose", axes=front), updates.then("transpose", axes=front)
    inputs = {"x": x.name, "index": rows.name, "updates": updates.name}
    out = Expression(b, b.emit("scatter_nd", inputs, attrs={"reduction": reduction}))
    if axis:
        out = out.then("transpose", axes=sorted(range(rank), key=front.__getitem__))
    b.set_output("out", (out if shape else out.then("squeeze", axis=[0])).name)


def _index_add_body(b: BodyContext) -> None:
    updates = read(b, "updates")
    if b.attr("alpha") != 1:
        dtype = known_meta(b).dtype
        attrs = {"values": [b.attr("alpha")], "shape": [], "dtype": dtype}
        updates = updates.with_("multiply", Expression(b, b.emit("constant", {}, attrs=attrs)))
    _scatter_slices(b, updates, "add")


def _index_add_shape(ctx: InferContext) -> None:
    """The output has the shape of x; updates has the length of index along the axis."""
    ctx.require_held("alpha", ctx.input("x").dtype)
    _updated_shape(ctx)


def _index_add_gradient(g: GradientContext) -> None:
    grad = g.output_grad("out")
    g.set_input_grad("x", grad)
    if g.wants("updates"):
        inputs = {"x": grad, "index": g.input("index")}
        picked = Expression(g, g.emit("gather", inputs, attrs={"axis": g.attr("axis")}))
        alpha = float(g.attr("alpha"))
        g.set_input_grad("updates", (picked if alpha == 1 else picked * alpha).name)


def _index_fill_body(b: BodyContext) -> None:
    like = {"x": b.input("x"), "index": b.input("index")}
    picked = Expression(b, b.emit("gather", like, attrs={"axis": b.attr("axis")}))
    _scatter_slices(b, picked.filled(b.attr("value")), "none")


def _index_fill_gradient(g: GradientContext) -> None:
    inputs = {"x": g.output_grad("out"), "index": g.input("index")}
    attrs = {"axis": g.attr("axis"), "value": 0.0}
    g.set_input_grad("x", g.emit("index_fill", inputs, attrs=attrs))


def _maker(op_type: str, comment: str, dtypes: Sequence[str]) -> OpMaker:
    maker = OpMaker(op_type).add_comment(comment)
    maker.add_input("x", "any shape; a scalar is one element along axis 0").dtypes(*dtypes)
    maker.add_input("index", "int32 or int64 [n], in [-length, length)")
    maker.dtypes(*INDICES)
    if op_type != "index_fill":
        maker.add_input("updates", "shape of x with n along axis; dtype of x").same_dtype_as("x")
    maker.add_output("out", "shape and dtype of x").same_dtype_as("x")
    return maker.add_attr("axis", int, "the axis of the indices").default(0)


INDEX_ADD = (
    _maker(
        "index_add",
        "A copy of x with slices added along one axis, out[..., index[i], ...] += alpha * "
        "updates[..., i, ...], in the order of i, as torch.index_add; for bool a sum is or.",
        ORDERED,
    )
    .add_attr("alpha", float, "the factor of updates, representable in the dtype")
    .default(1.0)
    .build(infer_shape=_index_add_shape, gradient=_index_add_gradient, body=_index_add_body)
)

INDEX_COPY = _maker(
    "index_copy",
    "A copy of x with slices set along one axis, out[..., index[i], ...] = updates[..., i, ...]: "
    "the last of repeated indices wins. As torch.index_copy.",
    ORDERED,
).build(infer_shape=_updated_shape, body=lambda b: _scatter_slices(b, read(b, "updates"), "none"))

INDEX_FILL = (
    _maker(
        "index_fill",
        "A copy of x with one value in the slices at indices along one axis, as torch.index_fill.",
        ORDERED,
    )
    .add_attr("value", float, "the value, representable in the dtype")
    .required()
    .build(infer_shape=_filled_shape, gradient=_index_fill_gradient, body=_index_fill_body)
)


def _index_put_shape(ctx: InferContext) -> None:
    """The output has the shape of x; values broadcast to the indexed elements."""
    x, indices = ctx.input("x").shape, ctx.inputs("indices")
    if not 1 <= len(indices) <= len(x):
        ctx.fail(
            f"indices must have 1 to {len(x)} tensors, one for each of the first axes of x "
            f"{format_shape(x)}, got {len(indices)}"
        )
    common = indices[0].shape
    for index in indices[1:]:
        common = broadcast_shapes(common, index.shape, ctx)
    named = (*common, *x[len(indices) :])
    require_broadcast(ctx, "values", named, "{}, the shape of the indexed elements")
    ctx.set_output("out", x)


def _shape_of(b: BodyContext, name: str | None) -> Shape:
    meta = b.meta(name or "")
    return (-1,) if meta is None else meta.shape


def _index_put_body(b: BodyContext) -> None:
    indices = [Expression(b, name).then("cast", dtype="int64") for name in b.inputs("indices")]
    shapes = [_shape_of(b, index.name) for index in indices]
    if len(set(shapes)) > 1:
        common = indices[0]
        for index in indices[1:]:
            common = common + index  # of the broadcast shape
        indices = [index.like(common, "expand_like") for index in indices]
    common_shape = _shape_of(b, indices[0].name)
    names = [index.name for index in indices]
    places = b.emit("stack", {"x": names}, attrs={"axis": len(common_shape)})
    values = read(b, "values")
    wanted = (*common_shape, *known_meta(b).shape[len(indices) :])
    if -1 in wanted:
        slices = b.emit("gather_nd", {"x": b.input("x"), "index": places})
        values = values.like(Expression(b, slices), "expand_like")
    elif _shape_of(b, values.name) != wanted:
        values = values.then("expand", shape=list(wanted))
    inputs = {"x": b.input("x"), "index": places, "updates": values.name}
    attrs = {"reduction": "add" if b.attr("accumulate") else "none"}
    b.emit("scatter_nd", inputs, {"out": b.output("out")}, attrs)


INDEX_PUT = (
    OpMaker("index_put")
    .add_comment(
        "A copy of x with elements set at indices along its first axes, out[indices[0], "
        "indices[1], ...] = values, as NumPy's x[i, j] = values: the last of repeated indices "
        "wins. With accumulate values are added, as numpy.add.at."
    )
    .add_input("x", "at least 1-d")
    .dtypes(*ORDERED)
    .add_input("indices", "int32 or int64, one for each of the first axes of x; they broadcast")
    .dtypes(*INDICES)
    .as_duplicable()
    .add_input("values", "broadcasts to the shape of the indices and the other axes; dtype of x")
    .same_dtype_as("x")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .add_attr("accumulate", bool, "whether values are added")
    .default(False)
    .build(infer_shape=_index_put_shape, body=_index_put_body)
)
