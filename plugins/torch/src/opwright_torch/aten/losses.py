"""Losses, their weights and reductions."""

from __future__ import annotations

from typing import Any, Final

from opwright_torch.aten.shapes import with_shape
from opwright_torch.translate import Rows, Translator
from opwright_torch.translate.translator import Value

ROWS: Final = Rows()

REDUCTIONS: Final = ("none", "mean", "sum")
"""The opwright reductions by PyTorch's reduction code."""


def _reduced(t: Translator, losses: Value, reduction: int) -> Value:
    return losses if reduction == 0 else t.op(REDUCTIONS[reduction], losses)


def _rows(input: Value, reduction: int, ignore_index: int) -> dict[str, Any]:
    """Return the attributes of a classification loss; classes are on axis 1 or the only axis."""
    axis = min(len(input.shape) - 1, 1)
    return {"axis": axis, "reduction": REDUCTIONS[reduction], "ignore_index": ignore_index}


@ROWS.row("aten::cross_entropy_loss")
def cross_entropy(
    t: Translator,
    input: Value,
    target: Value,
    weight: Value,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
) -> Value:
    """Return the cross entropy of scores with class ids or probabilities."""
    attrs = _rows(input, reduction, ignore_index)
    is_soft = t.shape(input) == t.shape(target)
    out = t.op(
        "weighted_cross_entropy",
        input,
        target,
        weight,
        soft_label=is_soft,
        label_smoothing=float(label_smoothing),
        **attrs,
    )
    return t.op("squeeze", out, axis=[attrs["axis"]]) if is_soft and reduction == 0 else out


@ROWS.row("aten::nll_loss", "aten::nll_loss_nd", "aten::nll_loss2d")
def nll_loss(
    t: Translator, input: Value, target: Value, weight: Value, reduction: int, ignore_index: int
) -> Value:
    """Return the negative log-likelihood of class ids."""
    attrs = _rows(input, reduction, ignore_index)
    return t.op("weighted_nll", input, target, weight, **attrs)


def _pointwise(
    t: Translator, type: str, input: Value, target: Value, reduction: int, **attrs: Any
) -> Value:
    """Append a loss of two broadcast tensors."""
    x, label = t.promote(input, target)
    if t.shape(x) != t.shape(label):
        x, label = (
            t.op("add", v, t.op("fill_like", u, value=0.0)) for v, u in ((x, label), (label, x))
        )
    return _reduced(t, t.op(type, x, label, **attrs), reduction)


@ROWS.row("aten::mse_loss")
def mse_loss(t: Translator, input: Value, target: Value, reduction: int) -> Value:
    """Return squared differences."""
    return _pointwise(t, "mse", input, target, reduction)


@ROWS.row("aten::l1_loss")
def l1_loss(t: Translator, input: Value, target: Value, reduction: int) -> Value:
    """Return absolute differences."""
    return _pointwise(t, "l1", input, target, reduction)


@ROWS.row("aten::smooth_l1_loss")
def smooth_l1_loss(
    t: Translator, input: Value, target: Value, reduction: int, beta: float
) -> Value:
    """Return smooth absolute differences."""
    return _pointwise(t, "smooth_l1", input, target, reduction, beta=float(beta))


@ROWS.row("aten::huber_loss")
def huber_loss(t: Translator, input: Value, target: Value, reduction: int, delta: float) -> Value:
    """Return squared differences near 0, and absolute differences far from 0."""
    return _pointwise(t, "huber", input, target, reduction, delta=float(delta))


@ROWS.row("aten::kl_div")
def kl_div(t: Translator, input: Value, target: Value, reduction: int, log_target: bool) -> Value:
    """Return the terms of the Kullback-Leibler divergence."""
    return _pointwise(t, "kl_div", input, target, reduction, log_label=log_target)


@ROWS.row("aten::binary_cross_entropy")
def binary_cross_entropy(
    t: Translator, input: Value, target: Value, weight: Value, reduction: int
) -> Value:
    """Return the binary cross entropy of probabilities."""
    losses = t.op("binary_cross_entropy", input, target, weight)
    return _reduced(t, losses, reduction)


@ROWS.row("aten::binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    t: Translator, input: Value, target: Value, weight: Value, pos_weight: Value, reduction: int
) -> Value:
    """Return the binary cross entropy of scores."""
    if weight is None and pos_weight is None:
        losses = t.op("sigmoid_cross_entropy_with_logits", input, target)
    else:
        losses = t.op("weighted_sigmoid_cross_entropy", input, target, weight, pos_weight)
    return _reduced(t, losses, reduction)


@ROWS.row("aten::soft_margin_loss")
def soft_margin_loss(t: Translator, input: Value, target: Value, reduction: int) -> Value:
    """Return ln(1 + exp(-`target` · `input`))."""
    return _pointwise(t, "soft_margin_loss", input, target, reduction)


@ROWS.row("aten::multi_margin_loss")
def multi_margin_loss(
    t: Translator,
    input: Value,
    target: Value,
    p: Value,
    margin: Value,
    weight: Value,
    reduction: int,
) -> Value:
    """Return the multi-class margin loss."""
    x = input if t.shape(input) else with_shape(t, input, [1])
    label = with_shape(t, target, list(t.shape(x)[:-1]))
    losses = t.op("multi_margin_loss", x, label, weight, p=int(p), margin=float(margin))
    return _reduced(t, losses, reduction)


@ROWS.row("aten::poisson_nll_loss")
def poisson_nll_loss(
    t: Translator,
    input: Value,
    target: Value,
    log_input: bool,
    full: bool,
    eps: float,
    reduction: int,
) -> Value:
    """Return the negative log-likelihood of event counts."""
    attrs: dict[str, Any] = {"log_input": log_input, "full": full, "eps": float(eps)}
    return _pointwise(t, "poisson_nll", input, target, reduction, **attrs)


@ROWS.row("aten::triplet_margin_loss")
def triplet_margin_loss(
    t: Translator,
    anchor: Value,
    positive: Value,
    negative: Value,
    margin: float,
    p: float,
    eps: float,
    swap: bool,
    reduction: int,
) -> Value:
    """Return the triplet margin loss."""
    attrs: dict[str, Any] = {
        "margin": float(margin),
        "p": float(p),
        "eps": float(eps),
        "swap": swap,
    }
    vectors = t.promote(anchor, positive, negative)
    return _reduced(t, t.op("triplet_margin_loss", *vectors, **attrs), reduction)


@ROWS.row("aten::cosine_similarity")
def cosine_similarity(t: Translator, x1: Value, x2: Value, dim: int, eps: float) -> Value:
    """Return the cosine similarity of vectors along an axis."""
    x, y = t.promote(x1, x2)
    cosine = t.op("cos_sim", x, y, axis=dim, epsilon=float(eps))
    return t.op("squeeze", cosine, axis=[dim])


@ROWS.row("aten::one_hot")
def one_hot(t: Translator, input: Value, num_classes: int) -> Value:
    """Return one-hot vectors."""
    return t.op("one_hot", input, depth=num_classes, dtype="int64")
