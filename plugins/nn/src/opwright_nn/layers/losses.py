"""Losses for regression, scores and pairs, and the mean over a batch; see also `cross_entropy`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import opwright as ow
from opwright_nn import checks, operators
from opwright_nn.layers.inputs import Input, find_input
from opwright_nn.layers.layer import REDUCTIONS, append_layer, append_total, begin, find_inputs


def mean(
    input: Input,
    axis: Iterable[int] = (),
    keepdims: bool = False,
    name: str | None = None,
) -> ow.Variable:
    """Append the mean over `axis`, by default over all elements.

    Parameters
    ----------
    input : Variable or str
        Float, of any shape.
    axis : iterable of int
        The axes to reduce; all by default.
    keepdims : bool
        Whether these axes remain, with size 1.
    name : str, optional
        The prefix of the layer's variable names.
    """
    attrs = {"axis": checks.check_ints("mean", "axis", axis), "keepdims": keepdims}
    return append_layer("mean", {"x": input}, attrs, name)


def mse(
    input: Input, label: Input, name: str | None = None, *, reduction: str = "none"
) -> ow.Variable:
    """Append ``(x - label)**2`` for each element.

    Parameters
    ----------
    input, label : Variable or str
        Variables of equal shape and dtype.
    name : str, optional
        The prefix of the layer's variable names.
    reduction : str
        "none", "mean" or "sum".
    """
    return _append_loss("mse", {"x": input, "label": label}, {}, name, reduction)


def l1(
    input: Input, label: Input, name: str | None = None, *, reduction: str = "none"
) -> ow.Variable:
    """Append ``|x - label|`` for each element; a scalar with `reduction` "mean" or "sum"."""
    return _append_loss("l1", {"x": input, "label": label}, {}, name, reduction)


def smooth_l1(
    input: Input,
    label: Input,
    beta: float = 1.0,
    name: str | None = None,
    *,
    reduction: str = "none",
) -> ow.Variable:
    """Append ``|x - label|`` for each element, quadratic near 0.

    Parameters
    ----------
    input, label : Variable or str
        Variables of equal shape and dtype.
    beta : float, at least 0
        The distance below which the loss is ``(x - label)**2 / (2 * beta)``.
    name : str, optional
        The prefix of the layer's variable names.
    reduction : str
        "none", "mean" or "sum".
    """
    return _append_loss("smooth_l1", {"x": input, "label": label}, {"beta": beta}, name, reduction)


def huber(
    input: Input,
    label: Input,
    delta: float = 1.0,
    name: str | None = None,
    *,
    reduction: str = "none",
) -> ow.Variable:
    """Append ``(x - label)**2 / 2`` for each element, linear beyond `delta`.

    Parameters
    ----------
    input, label : Variable or str
        Variables of equal shape and dtype.
    delta : float, > 0
        The distance from which the loss is linear.
    name : str, optional
        The prefix of the layer's variable names.
    reduction : str
        "none", "mean" or "sum".
    """
    return _append_loss("huber", {"x": input, "label": label}, {"delta": delta}, name, reduction)


def hinge(
    input: Input, label: Input, name: str | None = None, *, reduction: str = "none"
) -> ow.Variable:
    """Append ``max(0, 1 - x * label)`` for each score; labels are 1 or -1.

    With `reduction` "mean" or "sum" the result is a scalar.
    """
    return _append_loss("hinge", {"x": input, "label": label}, {}, name, reduction)


def log_loss(
    input: Input,
    label: Input,
    epsilon: float = 1e-4,
    name: str | None = None,
    *,
    reduction: str = "none",
) -> ow.Variable:
    """Append ``-label * log(x) - (1 - label) * log(1 - x)`` for each probability.

    Parameters
    ----------
    input : Variable or str
        Probabilities; for scores, `sigmoid_cross_entropy_with_logits` is more accurate.
    label : Variable or str
        A variable with the shape and dtype of `input`.
    epsilon : float, > 0
        Added to each probability.
    name : str, optional
        The prefix of the layer's variable names.
    reduction : str
        "none", "mean" or "sum".
    """
    return _append_loss(
        "log_loss", {"x": input, "label": label}, {"epsilon": epsilon}, name, reduction
    )


def kl_div(
    input: Input,
    label: Input,
    log_label: bool = False,
    name: str | None = None,
    *,
    reduction: str = "none",
) -> ow.Variable:
    """Append ``label * (log(label) - x)`` for each element.

    Parameters
    ----------
    input : Variable or str
        Log-probabilities, as from `log_softmax`.
    label : Variable or str
        Probabilities, or with `log_label` their logarithms; of the shape and dtype of `input`.
    log_label : bool
        Whether labels are logarithms.
    name : str, optional
        The prefix of the layer's variable names.
    reduction : str
        "none", "mean" or "sum".
    """
    return _append_loss(
        "kl_div", {"x": input, "label": label}, {"log_label": log_label}, name, reduction
    )


def margin_rank_loss(
    input: Input,
    y: Input,
    label: Input,
    margin: float = 0.0,
    name: str | None = None,
    *,
    reduction: str = "none",
) -> ow.Variable:
    """Append ``max(0, margin - label * (x - y))`` for each pair of scores.

    Parameters
    ----------
    input, y : Variable or str
        Scores of equal shape and dtype.
    label : Variable or str
        1 where `input` should be larger, -1 where `y` should be; of the same shape and dtype.
    margin : float
        The difference above which the loss is 0.
    name : str, optional
        The prefix of the layer's variable names.
    reduction : str
        "none", "mean" or "sum".
    """
    return _append_loss(
        "margin_rank_loss",
        {"x": input, "y": y, "label": label},
        {"margin": margin},
        name,
        reduction,
    )


def rank_loss(
    input: Input,
    y: Input,
    label: Input,
    name: str | None = None,
    *,
    reduction: str = "none",
) -> ow.Variable:
    """Append ``log(1 + exp(x - y)) - label * (x - y)`` for each pair of scores.

    Labels are the probabilities that `input` should be larger. With `reduction` "mean" or "sum" the
    result is a scalar.
    """
    return _append_loss("rank_loss", {"x": input, "y": y, "label": label}, {}, name, reduction)


def cosine_embedding_loss(
    input: Input,
    y: Input,
    label: Input,
    margin: float = 0.0,
    name: str | None = None,
    *,
    reduction: str = "none",
) -> ow.Variable:
    """Append ``1 - c`` or ``max(0, c - margin)`` for each pair of vectors, where c is their cosine.

    Parameters
    ----------
    input, y : Variable or str, [..., d]
        Vectors of equal shape and dtype.
    label : Variable or str, [...]
        1 for similar vectors, -1 for dissimilar vectors; of the same dtype.
    margin : float in [-1, 1]
        The cosine below which dissimilar vectors have no loss.
    name : str, optional
        The prefix of the layer's variable names.
    reduction : str
        "none", "mean" or "sum".
    """
    inputs = {"x": input, "y": y, "label": label}
    return _append_loss("cosine_embedding_loss", inputs, {"margin": margin}, name, reduction)


@ow.transaction()
def ctc_loss(
    input: Input,
    label: Input,
    lengths: Input | None = None,
    label_lengths: Input | None = None,
    blank: int = 0,
    zero_infinity: bool = False,
    name: str | None = None,
) -> ow.Variable:
    """Append ``-log p(label | x)`` for each row, where the alignment of labels is unknown (CTC).

    Parameters
    ----------
    input : Variable or str, [n, time, classes]
        Log-probabilities, as from `log_softmax`.
    label : Variable or str, [n, labels]
        Classes except `blank`.
    lengths, label_lengths : Variable or str, optional
        [n], the numbers of time steps and labels in each row; all by default.
    blank : int
        The class that stands for no label.
    zero_infinity : bool
        Whether the loss of a row with too few time steps is 0 instead of infinite.
    name : str, optional
        The prefix of the layer's variable names.
    """
    given = {"label": label, "lengths": lengths, "label_lengths": label_lengths}
    inputs: dict[str, Input] = {"x": find_input("ctc_loss", "input", input)}
    for slot, value in given.items():
        if value is not None:
            inputs[slot] = find_input("ctc_loss", slot, value, "int64")
    attrs = {"blank": blank, "zero_infinity": zero_infinity}
    return append_layer("ctc_loss", inputs, attrs, name)


@ow.transaction()
def _append_loss(
    op_type: str,
    inputs: Mapping[str, object],
    attrs: Mapping[str, Any],
    name: object,
    reduction: object,
) -> ow.Variable:
    """Append a loss, and its mean or sum over all elements."""
    kind = checks.check_choice(op_type, "reduction", reduction, REDUCTIONS)
    if kind == "none":
        return append_layer(op_type, inputs, attrs, name)
    variables = find_inputs(op_type, inputs)
    layer = begin(op_type, name)
    loss = operators.append(layer.block, op_type, variables, attrs, name=layer.part("loss"))
    return append_total(layer, loss, kind)
