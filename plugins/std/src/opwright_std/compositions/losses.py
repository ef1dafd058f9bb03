"""Losses, composed of simpler operators to compute second gradients."""

from __future__ import annotations

from opwright.op import BodyContext, by_differentiating
from opwright_std.compositions.expression import Expression, read


def _difference(b: BodyContext) -> Expression:
    return read(b, "x") - read(b, "label")


@by_differentiating
def mse(b: BodyContext) -> str:
    return _difference(b).then("square").name


def _bent(difference: Expression, delta: float) -> Expression:
    inner = difference.then("clip", min=-delta, max=delta)
    return inner * (difference - inner * 0.5)


@by_differentiating
def huber(b: BodyContext) -> str:
    return _bent(_difference(b), float(b.attr("delta"))).name


@by_differentiating
def smooth_l1(b: BodyContext) -> str:
    beta = float(b.attr("beta"))
    if beta == 0:
        return _difference(b).then("abs").name
    return (_bent(_difference(b), beta) / beta).name


@by_differentiating
def hinge(b: BodyContext) -> str:
    return (1.0 - read(b, "x") * read(b, "label")).then("clip", min=0.0).name


@by_differentiating
def margin_rank_loss(b: BodyContext) -> str:
    score = read(b, "label") * (read(b, "x") - read(b, "y"))
    return (float(b.attr("margin")) - score).then("clip", min=0.0).name


def _of_score(score: Expression, label: Expression) -> str:
    return (score.then("softplus") - score * label).name


@by_differentiating
def sigmoid_cross_entropy_with_logits(b: BodyContext) -> str:
    return _of_score(read(b, "x"), read(b, "label"))


@by_differentiating
def rank_loss(b: BodyContext) -> str:
    return _of_score(read(b, "x") - read(b, "y"), read(b, "label"))


@by_differentiating
def log_loss(b: BodyContext) -> str:
    x, label, epsilon = read(b, "x"), read(b, "label"), float(b.attr("epsilon"))
    yes, no = (x + epsilon).then("log"), (1.0 + epsilon - x).then("log")
    return (-(label * yes) - (1.0 - label) * no).name


@by_differentiating
def kl_div(b: BodyContext) -> str:
    x, label = read(b, "x"), read(b, "label")
    if b.attr("log_label"):
        return (label.then("exp") * (label - x)).name
    # Labels of 0 are replaced by 1 before the logarithm, since 0 * inf would be NaN.
    logs = label.compare("equal", 0.0).choose(label.filled(1.0), label).then("log")
    return (label * (logs - x)).name


def _row_loss(b: BodyContext, logs: Expression, axis: int) -> str:
    """Return the loss for distributions, ``-sum(label * logs)``."""
    return (-(logs * read(b, "label")).reduce("sum", [axis])).name


def _pick(b: BodyContext, x: Expression, axis: int, ignore_index: int) -> Expression:
    """Return the loss for class ids, ``-x[label]``."""
    inputs = {"x": x.name, "label": b.input("label")}
    return Expression(b, b.emit("nll", inputs, attrs={"axis": axis, "ignore_index": ignore_index}))


@by_differentiating
def cross_entropy(b: BodyContext) -> str:
    x, epsilon = read(b, "x"), float(b.attr("epsilon"))
    if b.attr("soft_label"):
        return _row_loss(b, x.then("clip", min=epsilon).then("log"), -1)
    return (-(-_pick(b, x, -1, -100)).then("clip", min=epsilon).then("log")).name


def _softmax_with_cross_entropy(b: BodyContext) -> str:
    axis = b.attr("axis")
    logs = read(b, "logits").then("log_softmax", axis=axis)
    if b.attr("soft_label"):
        return _row_loss(b, logs, axis)
    return _pick(b, logs, axis, b.attr("ignore_index")).name


SOFTMAX_WITH_CROSS_ENTROPY = by_differentiating(_softmax_with_cross_entropy, reads=["logits"])
