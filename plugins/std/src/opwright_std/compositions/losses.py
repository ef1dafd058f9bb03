"""Losses, composed of simpler operators to compute second gradients."""

from __future__ import annotations

from opwright.op import BodyContext, Composition, by_differentiating
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
    return _within(read(b, "x"), read(b, "label"), 1.0)


@by_differentiating
def margin_rank_loss(b: BodyContext) -> str:
    return _within(read(b, "x") - read(b, "y"), read(b, "label"), float(b.attr("margin")))


def _within(score: Expression, label: Expression, margin: float) -> str:
    """Return max(0, margin - score * label), with factors of 0 where this is 0."""
    is_beyond = (margin - score * label).compare("less", 0.0)
    factors = [is_beyond.choose(x.filled(0.0), x) for x in (score, label)]
    loss = margin - factors[0] * factors[1]
    return is_beyond.choose(loss.filled(0.0), loss).name


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


def _kl_div(b: BodyContext) -> None:
    x, label, grad = (read(b, slot) for slot in ("x", "label", "out_grad"))
    is_log = b.attr("log_label")
    weight = label.then("exp") if is_log else label
    if b.has_output("x_grad"):
        b.set_output("x_grad", (-(weight * grad)).name)
    if not b.has_output("label_grad"):
        return
    if is_log:
        is_present = weight.compare("not_equal", 0.0)
        logs, x = (is_present.choose(each, each.filled(0.0)) for each in (label, x))
        derivative = weight * (logs - x + 1.0)
    else:
        derivative = label.then("log") - x + 1.0
    b.set_output("label_grad", (derivative * grad).name)


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
KL_DIV = Composition(_kl_div)
