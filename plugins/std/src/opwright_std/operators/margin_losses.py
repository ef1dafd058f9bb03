"""Margin losses for scores and signs, for classes, and for triplets of vectors."""

from __future__ import annotations

from opwright.op import (
    BodyContext,
    InferContext,
    OpMaker,
    broadcast_shapes,
    format_shape,
    merge_dims,
)
from opwright_std.compositions.expression import Expression, in_float32, read
from opwright_std.numerics.broadcasting import require_broadcast
from opwright_std.numerics.class_ids import require_label
from opwright_std.numerics.dtypes import FLOATS, INDICES
from opwright_std.operators.mse import pointwise_loss, same_shapes


def _soft_margin(b: BodyContext) -> Expression:
    return (-(read(b, "label") * read(b, "x"))).then("softplus")


SOFT_MARGIN_LOSS = pointwise_loss(
    "soft_margin_loss",
    "Logistic loss of a score and a sign, out = ln(1 + exp(-label * x)).",
    "float, any shape: scores",
    "shape and dtype of x: 1 or -1",
).build(infer_shape=same_shapes, body=in_float32(_soft_margin))


def _multi_margin_shape(ctx: InferContext) -> None:
    """The output has one loss per row."""
    shape, label = ctx.input("x").shape, ctx.input("label").shape
    ctx.require(len(shape) >= 1, f"x must be [..., classes], got {format_shape(shape)}")
    require_label(ctx, shape[:-1])
    ctx.require_shape("weight", shape[-1:])
    ctx.set_output("out", tuple(map(merge_dims, shape[:-1], label)))


def _multi_margin(b: BodyContext) -> Expression:
    x, label = read(b, "x"), read(b, "label")
    ids = label.then("unsqueeze", axis=[-1])
    inputs = {"x": x.name, "index": ids.name}
    own = Expression(b, b.emit("take_along_axis", inputs, attrs={"axis": -1}))
    missing = (x - own + float(b.attr("margin"))).then("clip", min=0.0)
    if b.attr("p") == 2:
        missing = missing.then("square")
    updates = {"x": missing.name, "index": ids.name, "updates": own.filled(0.0).name}
    others = Expression(b, b.emit("scatter", updates, attrs={"axis": -1}))
    rows = others.then("mean", axis=[-1])
    if b.has_input("weight"):
        inputs = {"x": b.inputs("weight")[0], "index": label.name}
        rows = rows * Expression(b, b.emit("gather", inputs, attrs={"axis": 0}))
    return rows


MULTI_MARGIN_LOSS = (
    OpMaker("multi_margin_loss")
    .add_comment(
        "Multi-class margin loss, out = "
        "weight[label] * sum(max(0, margin - x[label] + x[j])**p) / classes over the other "
        "classes j."
    )
    .add_input("x", "float [..., classes]: scores")
    .dtypes(*FLOATS)
    .add_input("label", "int [...], class ids in [0, classes)")
    .dtypes(*INDICES)
    .add_input("weight", "[classes], a factor for each class; absent counts as 1")
    .same_dtype_as("x")
    .as_optional()
    .add_output("out", "[...], dtype of x")
    .same_dtype_as("x")
    .add_attr("p", int, "the exponent")
    .default(1)
    .one_of(1, 2)
    .add_attr("margin", float, "margin of the difference, above which the loss is 0")
    .default(1.0)
    .build(infer_shape=_multi_margin_shape, body=in_float32(_multi_margin))
)


def _multilabel_shape(ctx: InferContext) -> None:
    """The output has one loss per row."""
    shape, label = ctx.input("x").shape, ctx.input("label").shape
    ctx.require(len(shape) >= 1, f"x must be [..., classes], got {format_shape(shape)}")
    require_label(ctx, shape)
    ctx.set_output("out", tuple(map(merge_dims, shape[:-1], label[:-1])))


def _multilabel_soft_shape(ctx: InferContext) -> None:
    """The output has one loss per row."""
    _multilabel_shape(ctx)
    if ctx.has_input("weight"):
        require_broadcast(ctx, "weight", ctx.input("x").shape)


def _multilabel_margin(b: BodyContext) -> Expression:
    x, label = read(b, "x"), read(b, "label")
    has_ended = label.compare("less", 0.0).then("cumsum", axis=-1).compare("greater", 0)
    counts = has_ended.then("logical_not")
    ids = label.with_("maximum", label.filled(0.0))
    updates = {"x": counts.filled(0.0).name, "index": ids.name, "updates": counts.name}
    is_class = Expression(b, b.emit("scatter", updates, attrs={"axis": -1, "reduction": "add"}))
    own = x.take(ids, -1).then("unsqueeze", axis=[-1])
    missing = (x.then("unsqueeze", axis=[-2]) - own + float(b.attr("margin"))).then("clip", min=0.0)
    others = is_class.then("logical_not").then("unsqueeze", axis=[-2])
    kept = counts.then("unsqueeze", axis=[-1]).with_("logical_and", others)
    terms = kept.choose(missing, missing.filled(0.0))
    return terms.then("sum", axis=[-2]).then("mean", axis=[-1])


MULTILABEL_MARGIN_LOSS = (
    OpMaker("multilabel_margin_loss")
    .add_comment(
        "Multi-label margin loss, out = sum(max(0, margin - x[c] + x[j])) / classes "
        "over the classes c of a row and all other classes j. The first negative number ends a "
        "row's list of classes. As torch.nn.functional.multilabel_margin_loss."
    )
    .add_input("x", "float [..., classes]: scores")
    .dtypes(*FLOATS)
    .add_input("label", "int, shape of x: class ids, terminated by a negative number")
    .dtypes(*INDICES)
    .add_output("out", "[...], dtype of x")
    .same_dtype_as("x")
    .add_attr("margin", float, "margin of the difference, above which the loss is 0")
    .default(1.0)
    .build(infer_shape=_multilabel_shape, body=in_float32(_multilabel_margin))
)


def _multilabel_soft_margin(b: BodyContext) -> Expression:
    x, label = read(b, "x"), read(b, "label")
    losses = label * (-x).then("softplus") + (1.0 - label) * x.then("softplus")
    if b.has_input("weight"):
        losses = losses * read(b, "weight")
    return losses.then("mean", axis=[-1])


MULTILABEL_SOFT_MARGIN_LOSS = (
    OpMaker("multilabel_soft_margin_loss")
    .add_comment(
        "Multi-label loss, the mean logistic loss over classes, out = "
        "mean(weight * (label * ln(1 + exp(-x)) + (1 - label) * ln(1 + exp(x)))). As "
        "torch.nn.functional.multilabel_soft_margin_loss."
    )
    .add_input("x", "float [..., classes]: scores")
    .dtypes(*FLOATS)
    .add_input("label", "shape and dtype of x: 1 for the classes of a row, else 0")
    .same_dtype_as("x")
    .add_input("weight", "factors, broadcast to x, such as [classes]; absent counts as 1")
    .same_dtype_as("x")
    .as_optional()
    .add_output("out", "[...], dtype of x")
    .same_dtype_as("x")
    .build(infer_shape=_multilabel_soft_shape, body=in_float32(_multilabel_soft_margin))
)


def _triplet_shape(ctx: InferContext) -> None:
    """The output has one loss per triplet of vectors, which broadcast."""
    shape = ctx.input("anchor").shape
    for slot in ("positive", "negative"):
        shape = broadcast_shapes(shape, ctx.input(slot).shape, ctx)
    ctx.require(len(shape) >= 1, f"vectors must be at least 1-d, got {format_shape(shape)}")
    ctx.set_output("out", shape[:-1])


def _triplet_margin(b: BodyContext) -> Expression:
    anchor, positive, negative = (read(b, s) for s in ("anchor", "positive", "negative"))

    def distance(x: Expression, y: Expression) -> Expression:
        return (x - y + float(b.attr("eps"))).then("norm", axis=[-1], p=float(b.attr("p")))

    apart = distance(anchor, negative)
    if b.attr("swap"):
        apart = apart.with_("minimum", distance(positive, negative))
    return (distance(anchor, positive) - apart + float(b.attr("margin"))).then("clip", min=0.0)


TRIPLET_MARGIN_LOSS = (
    OpMaker("triplet_margin_loss")
    .add_comment(
        "Triplet margin loss, out = max(0, "
        "margin + d(anchor, positive) - d(anchor, negative)) with d(x, y) the p-norm of x - y + "
        "eps. With swap, d(positive, negative) replaces d(anchor, negative) if it is smaller. "
        "Balntas et al., 2016."
    )
    .add_input("anchor", "float [..., d]")
    .dtypes(*FLOATS)
    .add_input("positive", "[..., d] that broadcasts, dtype of anchor")
    .same_dtype_as("anchor")
    .add_input("negative", "[..., d] that broadcasts, dtype of anchor")
    .same_dtype_as("anchor")
    .add_output("out", "[...], dtype of anchor")
    .same_dtype_as("anchor")
    .add_attr("margin", float, "margin of the distances, above which the loss is 0")
    .default(1.0)
    .add_attr("p", float, "the exponent of the norm")
    .default(2.0)
    .greater_than(0.0)
    .add_attr("eps", float, "added to differences, to keep norms differentiable")
    .default(1e-6)
    .add_attr("swap", bool, "whether the negative's smaller distance to the others is used")
    .default(False)
    .build(infer_shape=_triplet_shape, body=in_float32(_triplet_margin))
)
