"""Loss of vector pairs, computed from the cosine of their angle."""

from __future__ import annotations

from opwright.op import BodyContext, InferContext, OpMaker, format_shape, merge_dims, shapes_match
from opwright_std.numerics.class_ids import require_label
from opwright_std.numerics.dtypes import FLOATS

_LEAST_NORM = 1e-6


def _cosine_embedding_loss_shape(ctx: InferContext) -> None:
    """The output has the shape of label, which is the shape of x and y without the last axis."""
    x, y, label = (ctx.input(slot).shape for slot in ("x", "y", "label"))
    ctx.require(
        len(x) >= 1,
        f"x must be at least 1-d, with vectors along the last axis, got {format_shape(x)}",
    )
    if not shapes_match(x, y):
        ctx.fail(f"y must have the shape of x, {format_shape(x)}, got {format_shape(y)}")
    rows = tuple(map(merge_dims, x[:-1], y[:-1]))
    require_label(ctx, rows)
    ctx.set_output("out", tuple(map(merge_dims, rows, label)))


def _cosine_embedding_loss_body(b: BodyContext) -> None:
    label = b.input("label")
    vectors = {"x": b.input("x"), "y": b.input("y")}
    cosine = b.emit("cos_sim", vectors, attrs={"epsilon": _LEAST_NORM})
    cosine = b.emit("squeeze", {"x": cosine}, attrs={"axis": [-1]})

    def is_label(value: float) -> str:
        wanted = b.emit("fill_like", {"x": label}, attrs={"value": value})
        return b.emit("equal", {"x": label, "y": wanted})

    apart = b.emit("scale", {"x": cosine}, attrs={"scale": -1.0, "bias": 1.0})
    beyond = b.emit("scale", {"x": cosine}, attrs={"scale": 1.0, "bias": -b.attr("margin")})
    near = b.emit("clip", {"x": beyond}, attrs={"min": 0.0})
    none = b.emit("fill_like", {"x": label}, attrs={"value": 0.0})
    others = b.emit("where", {"condition": is_label(-1.0), "x": near, "y": none})
    loss = {"condition": is_label(1.0), "x": apart, "y": others}
    b.emit("where", loss, {"out": b.output("out")})


COSINE_EMBEDDING_LOSS = (
    OpMaker("cosine_embedding_loss")
    .add_comment(
        "Loss of pairs of vectors from the cosine of their angle, c = <x, y> / (|x| * |y|), out = "
        "1 "
        "- c where label is 1, max(0, c - margin) where label is -1, and 0 elsewhere. Norms are at "
        f"least {_LEAST_NORM:g}, so a zero vector has the cosine 0."
    )
    .add_input("x", "float [..., d]: vectors")
    .dtypes(*FLOATS)
    .add_input("y", "shape and dtype of x: the other vectors")
    .same_dtype_as("x")
    .add_input("label", "[...], dtype of x: 1 for similar vectors, -1 for dissimilar ones")
    .same_dtype_as("x")
    .add_output("out", "[...], dtype of x")
    .same_dtype_as("x")
    .add_attr("margin", float, "cosine below which dissimilar vectors have no loss")
    .default(0.0)
    .between(-1.0, 1.0)
    .build(infer_shape=_cosine_embedding_loss_shape, body=_cosine_embedding_loss_body)
)
