"""Losses with class weights, label smoothing and reductions, as PyTorch defines them.

Each is composed of the plain loss, which has kernels on every device, and operators on its rows.
"""

from __future__ import annotations

from opwright.op import (
    BodyContext,
    GradientContext,
    InferContext,
    OpMaker,
    normalize_axis,
)
from opwright_std.compositions.expression import Expression, rank_of, read
from opwright_std.numerics.broadcasting import require_broadcast
from opwright_std.numerics.class_ids import infer_row_loss
from opwright_std.numerics.dtypes import FLOATS, INDICES

REDUCTIONS = ("none", "mean", "sum")
LEAST_LOG = -100.0
"""PyTorch's binary cross entropy clamps the logarithm of 0 to this."""


def _rows_shape(ctx: InferContext, scores: str, soft_label: bool) -> None:
    shape = ctx.input(scores).shape
    axis = normalize_axis(ctx, ctx.attr("axis"), len(shape))
    ctx.require_shape("weight", (shape[axis],))
    infer_row_loss(ctx, scores, axis, soft_label)
    if ctx.attr("reduction") != "none":
        ctx.set_output("out", ())


def _weighted_cross_entropy_shape(ctx: InferContext) -> None:
    """The output has the shape of class ids (1 class for distributions), or [] if reduced."""
    _rows_shape(ctx, "logits", ctx.attr("soft_label"))


def _weighted_nll_shape(ctx: InferContext) -> None:
    """The output has the shape of the class ids, or is a scalar if reduced."""
    _rows_shape(ctx, "x", False)


def _row_weights(b: BodyContext, scores: str) -> Expression:
    """Return the weight of each row: the weight of its class, 0 if it is ignored."""
    label = read(b, "label")
    counts = label.compare("not_equal", b.attr("ignore_index"))
    if not b.has_input("weight"):
        return counts.like(read(b, scores), "cast_like")
    ids = counts.choose(label, label.filled(0))
    inputs = {"x": b.input("weight"), "index": ids.name}
    weights = Expression(b, b.emit("gather", inputs, attrs={"axis": 0}))
    return counts.choose(weights, weights.filled(0.0))


def _lined_up(b: BodyContext, scores: str) -> Expression:
    """Return the weights of classes in a shape that broadcasts to the scores."""
    axis = b.attr("axis")
    if axis == -1:
        return read(b, "weight")
    rank = rank_of(b, scores)
    return read(b, "weight").then("reshape", shape=[-1] + [1] * (rank - 1 - axis % rank))


def _write_reduced(b: BodyContext, rows: Expression, counts: Expression | None) -> None:
    """Emit the losses of the rows, their sum, or their weighted mean."""
    kind = b.attr("reduction")
    if kind == "sum" or (kind == "mean" and counts is not None):
        rows = rows.then("sum")
    if kind == "mean":
        rows = rows.then("mean") if counts is None else rows / counts.then("sum")
    b.set_output("out", rows.name)


def _smooth_rows(b: BodyContext, logs: Expression) -> Expression:
    """Return the mean loss over the classes of each row, keeping the axis."""
    weighted = logs * _lined_up(b, "logits") if b.has_input("weight") else logs
    return -weighted.reduce("mean", [b.attr("axis")])


def _soft_rows(b: BodyContext, logs: Expression) -> Expression:
    """Return ``-sum(w * label * logs)`` of each row; it also has a gradient for label."""
    parts = read(b, "label") * logs
    if b.has_input("weight"):
        parts = parts * _lined_up(b, "logits")
    return -parts.reduce("sum", [b.attr("axis")])


def _weighted_cross_entropy_body(b: BodyContext) -> None:
    smoothing, soft = float(b.attr("label_smoothing")), b.attr("soft_label")
    counts = None if soft else _row_weights(b, "logits")
    if counts is not None and not smoothing:
        attrs = {name: b.attr(name) for name in ("axis", "ignore_index")}
        inputs = {slot: b.input(slot) for slot in ("logits", "label")}
        rows = Expression(b, b.emit("softmax_with_cross_entropy", inputs, attrs=attrs))
        _write_reduced(b, rows * counts if b.has_input("weight") else rows, counts)
        return
    logs = read(b, "logits").then("log_softmax", axis=b.attr("axis"))
    rows = _soft_rows(b, logs) if counts is None else _picked(b, logs.name) * counts
    if smoothing:
        others = _smooth_rows(b, logs)
        if not soft:
            label = read(b, "label")
            is_counted = label.compare("not_equal", b.attr("ignore_index"))
            others = others.like(label)
            others = is_counted.choose(others, others.filled(0.0))  # 0 * inf would be NaN
        rows = rows * (1 - smoothing) + others * smoothing
    _write_reduced(b, rows, counts)


def _picked(b: BodyContext, logs: str) -> Expression:
    attrs = {name: b.attr(name) for name in ("axis", "ignore_index")}
    inputs = {"x": logs, "label": b.input("label")}
    return Expression(b, b.emit("nll", inputs, attrs=attrs))


def _weighted_nll_body(b: BodyContext) -> None:
    rows, counts = _picked(b, b.input("x") or ""), _row_weights(b, "x")
    _write_reduced(b, rows * counts if b.has_input("weight") else rows, counts)


def _add_rows(maker: OpMaker) -> OpMaker:
    """Add the common parts of classification losses."""
    maker.add_attr("ignore_index", int, "class id of rows with loss 0 that do not count")
    maker.default(-100)
    maker.add_attr("axis", int, "the axis of the classes").default(-1)
    maker.add_attr(
        "reduction",
        str,
        "'none', 'sum' or 'mean'; for class ids, the mean is weighted over the rows that "
        "count (NaN if there are none), for distributions it is over all rows",
    )
    return maker.default("none").one_of(*REDUCTIONS)


def _add_weight(maker: OpMaker, scores: str) -> OpMaker:
    maker.add_input("weight", "[classes], a factor for the loss of each class; absent counts as 1")
    maker.same_dtype_as(scores).as_optional()
    maker.add_output("out", "shape of the class ids; 1 class for distributions; reduced: a scalar")
    return maker.same_dtype_as(scores)


WEIGHTED_CROSS_ENTROPY = (
    _add_rows(
        _add_weight(
            OpMaker("weighted_cross_entropy")
            .add_comment(
                "Cross entropy of softmax(logits) with class weights, as PyTorch's cross_entropy: "
                "for class ids w[label] * -log_softmax(logits)[label], for "
                "distributions -sum(w * label * log_softmax(logits)). With label_smoothing s a row "
                "is (1 - s) of that and s times the mean of w * -log_softmax(logits) over classes."
            )
            .add_input("logits", "float, at least 1-d: scores")
            .dtypes(*FLOATS)
            .add_input(
                "label",
                "int, class ids in [0, classes) or ignore_index: shape of logits with 1 along "
                "axis, or without axis; with soft_label float, shape and dtype of logits",
            )
            .dtypes(*INDICES, *FLOATS),
            "logits",
        )
    )
    .add_attr("soft_label", bool, "whether label holds distributions instead of class ids")
    .default(False)
    .add_attr("label_smoothing", float, "fraction of the label distributed evenly over all classes")
    .default(0.0)
    .between(0.0, 1.0)
    .build(infer_shape=_weighted_cross_entropy_shape, body=_weighted_cross_entropy_body)
)

WEIGHTED_NLL = _add_rows(
    _add_weight(
        OpMaker("weighted_nll")
        .add_comment(
            "Negative log-likelihood of class ids with class weights, out = w[label] * -x[label] "
            "along the axis, as PyTorch's nll_loss."
        )
        .add_input("x", "float, at least 1-d: logarithms of probabilities")
        .dtypes(*FLOATS)
        .add_input(
            "label",
            "int, class ids in [0, classes) or ignore_index: shape of x with 1 along axis, or "
            "without axis",
        )
        .dtypes(*INDICES),
        "x",
    )
).build(infer_shape=_weighted_nll_shape, body=_weighted_nll_body)


def _elements_shape(ctx: InferContext) -> None:
    """The output has the shape of x and label, to which a weight broadcasts."""
    shape = ctx.input("x").shape
    ctx.require_shape("label", shape)
    _check_broadcast(ctx, "weight")
    ctx.set_output("out", shape)


def _weighted_sigmoid_shape(ctx: InferContext) -> None:
    """The output has the shape of x and label, to which both weights broadcast."""
    _check_broadcast(ctx, "positive_weight")
    _elements_shape(ctx)


def _check_broadcast(ctx: InferContext, slot: str) -> None:
    if ctx.has_input(slot):
        require_broadcast(ctx, slot, ctx.input("x").shape)


def _weighted_sigmoid_body(b: BodyContext) -> None:
    x, label = read(b, "x"), read(b, "label")
    inputs = {"x": x.name, "label": label.name}
    rows = Expression(b, b.emit("sigmoid_cross_entropy_with_logits", inputs))
    if b.has_input("positive_weight"):
        more = label * (-x).then("softplus")
        rows = rows + more * (read(b, "positive_weight") - 1.0)
    b.set_output("out", _weighted(b, rows).name)


def _weighted(b: BodyContext | GradientContext, rows: Expression) -> Expression:
    if not b.inputs("weight"):
        return rows
    return rows * Expression(b, b.inputs("weight")[0])


WEIGHTED_SIGMOID_CROSS_ENTROPY = (
    OpMaker("weighted_sigmoid_cross_entropy")
    .add_comment(
        "Element-wise weighted cross entropy of sigmoid(x), out = weight * "
        "(-positive_weight * label * ln(sigmoid(x)) - (1 - label) * ln(1 - sigmoid(x))), as "
        "PyTorch's binary_cross_entropy_with_logits."
    )
    .add_input("x", "float, any shape: scores")
    .dtypes(*FLOATS)
    .add_input("label", "shape and dtype of x: probabilities of the positive class in [0, 1]")
    .same_dtype_as("x")
    .add_input("weight", "broadcasts to x: a factor for each element; absent counts as 1")
    .same_dtype_as("x")
    .as_optional()
    .add_input("positive_weight", "broadcasts to x: a factor of the loss for label 1")
    .same_dtype_as("x")
    .as_optional()
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .build(infer_shape=_weighted_sigmoid_shape, body=_weighted_sigmoid_body)
)


def _logs(x: Expression) -> tuple[Expression, Expression]:
    """Return the logarithms of x and of 1 - x, clamped from below."""
    return _clamped(x, "log", 0.0), _clamped(-x, "log1p", -1.0)


def _clamped(x: Expression, op_type: str, end: float) -> Expression:
    """Return a logarithm of at least LEAST_LOG, which has the gradient 0 at -inf, x = end."""
    is_end = x.compare("equal", end)
    logarithm = is_end.choose(x.filled(end + 1.0), x).then(op_type).then("clip", min=LEAST_LOG)
    return is_end.choose(x.filled(LEAST_LOG), logarithm)


def _binary_losses(x: Expression, label: Expression) -> Expression:
    yes, no = _logs(x)
    return (label - 1.0) * no - label * yes


def _binary_cross_entropy_body(b: BodyContext) -> None:
    b.set_output("out", _weighted(b, _binary_losses(read(b, "x"), read(b, "label"))).name)


def _binary_cross_entropy_gradient(g: GradientContext) -> None:
    """Write (x - label) / (x * (1 - x)), with the product clamped to at least 1e-12."""
    x, label = (Expression(g, g.inputs(slot)[0]) for slot in ("x", "label"))
    (name,) = g.filled_output_grads("out")
    plain = Expression(g, name)
    grad = _weighted(g, plain)
    if g.wants("x"):
        derivative = (x - label) / (x * (1.0 - x)).then("clip", min=1e-12)
        g.set_input_grad("x", (grad * derivative).name)
    if g.wants("label"):
        yes, no = _logs(x)
        g.set_input_grad("label", (grad * (no - yes)).name)
    if g.wants("weight"):
        weight = Expression(g, g.inputs("weight")[0])
        losses = plain * _binary_losses(x, label)
        g.set_input_grad("weight", losses.like(weight, "sum_like").name)


BINARY_CROSS_ENTROPY = (
    OpMaker("binary_cross_entropy")
    .add_comment(
        "Element-wise binary cross entropy, out = weight * (-label * "
        "ln(x) - (1 - label) * ln(1 - x)), with logarithms of at least -100, as PyTorch's "
        "binary_cross_entropy. From scores, sigmoid_cross_entropy_with_logits is more accurate."
    )
    .add_input("x", "float, any shape: probabilities in [0, 1]")
    .dtypes(*FLOATS)
    .add_input("label", "shape and dtype of x: probabilities of the positive class in [0, 1]")
    .same_dtype_as("x")
    .add_input("weight", "broadcasts to x: a factor for each element; absent counts as 1")
    .same_dtype_as("x")
    .as_optional()
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .build(
        infer_shape=_elements_shape,
        body=_binary_cross_entropy_body,
        gradient=_binary_cross_entropy_gradient,
    )
)
