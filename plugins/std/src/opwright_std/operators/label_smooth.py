"""Label distributions mixed with a prior."""

from __future__ import annotations

from opwright.op import (
    BodyContext,
    InferContext,
    OpMaker,
    format_shape,
)
from opwright_std.numerics.broadcasting import require_broadcast
from opwright_std.numerics.dtypes import FLOATS


def _label_smooth_shape(ctx: InferContext) -> None:
    """The output has the shape of x, to which prior broadcasts."""
    shape = ctx.input("x").shape
    ctx.require(
        len(shape) >= 1,
        f"x must be at least 1-d, with classes along the last axis, got {format_shape(shape)}",
    )
    if ctx.has_input("prior"):
        require_broadcast(ctx, "prior", shape)
    ctx.set_output("out", shape)


def _label_smooth_body(b: BodyContext) -> None:
    x, prior, epsilon = b.input("x"), b.input("prior"), b.attr("epsilon")
    out = {"out": b.output("out")}
    meta = b.meta(b.inputs("x")[0])
    classes = -1 if meta is None else meta.shape[-1]
    if prior is None and classes >= 0:
        share = {"scale": 1 - epsilon, "bias": epsilon / max(classes, 1)}
        b.emit("scale", {"x": x}, out, share)
        return
    if prior is None:
        # Softmax of equal scores is uniform, for any number of classes.
        prior = b.emit("softmax", {"x": b.emit("fill_like", {"x": x}, attrs={"value": 0.0})})
    kept = b.emit("scale", {"x": x}, attrs={"scale": 1 - epsilon})
    mixed = b.emit("scale", {"x": prior}, attrs={"scale": epsilon})
    b.emit("add", {"x": kept, "y": mixed}, out)


LABEL_SMOOTH = (
    OpMaker("label_smooth")
    .add_comment(
        "Label smoothing, out = (1 - epsilon) * x + epsilon * prior; without prior it is uniform, "
        "1 / classes. Szegedy et al., 2016."
    )
    .add_input("x", "float [..., classes]: distributions, one-hot for class ids")
    .dtypes(*FLOATS)
    .add_input("prior", "a distribution that broadcasts to the shape of x, such as [classes]")
    .same_dtype_as("x")
    .as_optional()
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .add_attr("epsilon", float, "weight of the prior")
    .default(0.1)
    .between(0.0, 1.0)
    .build(infer_shape=_label_smooth_shape, body=_label_smooth_body)
)
