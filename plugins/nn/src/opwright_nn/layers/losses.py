"""Losses: one value for each row or element, and the mean over a batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import opwright as ow
from opwright_nn import checks, operators
from opwright_nn.layers.layer import begin


def mean(
    x: ow.Variable,
    axis: Iterable[int] = (),
    keepdims: bool = False,
    name: str | None = None,
) -> ow.Variable:
    """Append the mean over `axis`, over everything by default.

    Parameters
    ----------
    x : Variable
        Float, of any shape.
    axis : iterable of int
        The axes to reduce; all by default.
    keepdims : bool
        Whether these axes remain, with size 1.
    name : str, optional
        The prefix of the names of its variables.
    """
    attrs = {"axis": checks.check_ints("mean", "axis", axis), "keepdims": keepdims}
    return _append("mean", {"x": x}, attrs, name)


def cross_entropy(
    x: ow.Variable, label: ow.Variable, soft_label: bool = False, name: str | None = None
) -> ow.Variable:
    """Append ``-log(x[label])`` for each row of probabilities.

    Parameters
    ----------
    x : Variable, [n, classes]
        Probabilities; for logits, `softmax_with_cross_entropy` is faster and more accurate.
    label : Variable
        Classes, int64 [n, 1], or with `soft_label` distributions, [n, classes].
    soft_label : bool
        Whether labels are distributions.
    name : str, optional
        The prefix of the names of its variables.

    Returns
    -------
    Variable
        [n, 1].
    """
    inputs = {"x": x, "label": label}
    return _append("cross_entropy", inputs, {"soft_label": soft_label}, name)


def softmax_with_cross_entropy(
    logits: ow.Variable,
    label: ow.Variable,
    soft_label: bool = False,
    ignore_index: int = -100,
    name: str | None = None,
) -> ow.Variable:
    """Append ``-log(softmax(logits)[label])`` for each row.

    Parameters
    ----------
    logits : Variable, [n, classes]
        Scores, not normalized.
    label : Variable
        Classes, int64 [n, 1], or with `soft_label` distributions, [n, classes].
    soft_label : bool
        Whether labels are distributions.
    ignore_index : int
        A class whose rows have loss 0.
    name : str, optional
        The prefix of the names of its variables.

    Returns
    -------
    Variable
        [n, 1].
    """
    inputs = {"logits": logits, "label": label}
    attrs = {"soft_label": soft_label, "ignore_index": ignore_index}
    return _append("softmax_with_cross_entropy", inputs, attrs, name)


def sigmoid_cross_entropy_with_logits(
    x: ow.Variable, label: ow.Variable, name: str | None = None
) -> ow.Variable:
    """Append ``-label * log(s) - (1 - label) * log(1 - s)``, where s is sigmoid(x)."""
    return _append("sigmoid_cross_entropy_with_logits", {"x": x, "label": label}, {}, name)


def l1(x: ow.Variable, label: ow.Variable, name: str | None = None) -> ow.Variable:
    """Append ``|x - label|`` for each element."""
    return _append("l1", {"x": x, "label": label}, {}, name)


def smooth_l1(
    x: ow.Variable, label: ow.Variable, beta: float = 1.0, name: str | None = None
) -> ow.Variable:
    """Append ``|x - label|`` for each element, with a round bottom.

    Parameters
    ----------
    x, label : Variable
        Of one shape and dtype.
    beta : float, at least 0
        The distance below which the loss is ``(x - label)**2 / (2 * beta)``.
    name : str, optional
        The prefix of the names of its variables.
    """
    return _append("smooth_l1", {"x": x, "label": label}, {"beta": beta}, name)


def huber(
    x: ow.Variable, label: ow.Variable, delta: float = 1.0, name: str | None = None
) -> ow.Variable:
    """Append ``(x - label)**2 / 2`` for each element, linear beyond `delta`.

    Parameters
    ----------
    x, label : Variable
        Of one shape and dtype.
    delta : float, > 0
        The distance from which on the loss is linear.
    name : str, optional
        The prefix of the names of its variables.
    """
    return _append("huber", {"x": x, "label": label}, {"delta": delta}, name)


def hinge(x: ow.Variable, label: ow.Variable, name: str | None = None) -> ow.Variable:
    """Append ``max(0, 1 - x * label)`` for each score; labels are 1 or -1."""
    return _append("hinge", {"x": x, "label": label}, {}, name)


def log_loss(
    x: ow.Variable, label: ow.Variable, epsilon: float = 1e-4, name: str | None = None
) -> ow.Variable:
    """Append ``-label * log(x) - (1 - label) * log(1 - x)`` for each probability.

    Parameters
    ----------
    x : Variable
        Probabilities; for scores, `sigmoid_cross_entropy_with_logits` is more accurate.
    label : Variable
        Of the shape and dtype of `x`.
    epsilon : float, > 0
        Added to each probability.
    name : str, optional
        The prefix of the names of its variables.
    """
    return _append("log_loss", {"x": x, "label": label}, {"epsilon": epsilon}, name)


def kl_div(
    x: ow.Variable, label: ow.Variable, log_label: bool = False, name: str | None = None
) -> ow.Variable:
    """Append ``label * (log(label) - x)`` for each element.

    Parameters
    ----------
    x : Variable
        Logarithms of probabilities, as from `log_softmax`.
    label : Variable
        Probabilities, or with `log_label` their logarithms; of the shape and dtype of `x`.
    log_label : bool
        Whether labels are logarithms.
    name : str, optional
        The prefix of the names of its variables.
    """
    return _append("kl_div", {"x": x, "label": label}, {"log_label": log_label}, name)


def margin_rank_loss(
    x: ow.Variable,
    y: ow.Variable,
    label: ow.Variable,
    margin: float = 0.0,
    name: str | None = None,
) -> ow.Variable:
    """Append ``max(0, margin - label * (x - y))`` for each pair of scores.

    Parameters
    ----------
    x, y : Variable
        Scores of one shape and dtype.
    label : Variable
        1 where `x` should be the larger one, -1 where `y` should; of the same shape and dtype.
    margin : float
        The difference that counts as right.
    name : str, optional
        The prefix of the names of its variables.
    """
    return _append("margin_rank_loss", {"x": x, "y": y, "label": label}, {"margin": margin}, name)


def rank_loss(
    x: ow.Variable, y: ow.Variable, label: ow.Variable, name: str | None = None
) -> ow.Variable:
    """Append ``log(1 + exp(x - y)) - label * (x - y)`` for each pair of scores.

    Labels are probabilities that `x` should be the larger one.
    """
    return _append("rank_loss", {"x": x, "y": y, "label": label}, {}, name)


def nll(
    x: ow.Variable,
    label: ow.Variable,
    ignore_index: int = -100,
    axis: int = -1,
    name: str | None = None,
) -> ow.Variable:
    """Append ``-x[label]`` for each row of logarithms of probabilities.

    Parameters
    ----------
    x : Variable
        Logarithms of probabilities, as from `log_softmax`.
    label : Variable
        Classes, of the shape of `x` with 1 along `axis`, or without it.
    ignore_index : int
        A class whose rows have loss 0.
    axis : int
        The axis of the classes.
    name : str, optional
        The prefix of the names of its variables.
    """
    attrs = {"ignore_index": ignore_index, "axis": axis}
    return _append("nll", {"x": x, "label": label}, attrs, name)


def label_smooth(
    x: ow.Variable,
    prior: ow.Variable | None = None,
    epsilon: float = 0.1,
    name: str | None = None,
) -> ow.Variable:
    """Append ``(1 - epsilon) * x + epsilon * prior`` for distributions of classes.

    Parameters
    ----------
    x : Variable, [..., classes]
        Distributions, one-hot ones for class ids.
    prior : Variable, optional
        The distribution to mix in, of a shape that broadcasts; by default all classes are equal.
    epsilon : float in [0, 1]
        The share of `prior`.
    name : str, optional
        The prefix of the names of its variables.
    """
    inputs = {"x": x} if prior is None else {"x": x, "prior": prior}
    return _append("label_smooth", inputs, {"epsilon": epsilon}, name)


def cosine_embedding_loss(
    x: ow.Variable,
    y: ow.Variable,
    label: ow.Variable,
    margin: float = 0.0,
    name: str | None = None,
) -> ow.Variable:
    """Append ``1 - c`` or ``max(0, c - margin)`` for each pair of vectors of cosine c.

    Parameters
    ----------
    x, y : Variable, [..., d]
        Vectors of one shape and dtype.
    label : Variable, [...]
        1 where the vectors should be alike, -1 where not; of the same dtype.
    margin : float in [-1, 1]
        The cosine below which unlike vectors have no loss.
    name : str, optional
        The prefix of the names of its variables.
    """
    inputs = {"x": x, "y": y, "label": label}
    return _append("cosine_embedding_loss", inputs, {"margin": margin}, name)


def ctc_loss(
    x: ow.Variable,
    label: ow.Variable,
    lengths: ow.Variable | None = None,
    label_lengths: ow.Variable | None = None,
    blank: int = 0,
    zero_infinity: bool = False,
    name: str | None = None,
) -> ow.Variable:
    """Append ``-log p(label | x)`` for each row, the times of the labels being unknown.

    Parameters
    ----------
    x : Variable, [n, time, classes]
        Logarithms of probabilities, as from `log_softmax`.
    label : Variable, [n, labels]
        Classes other than `blank`.
    lengths, label_lengths : Variable, optional
        [n], how many times and labels of each row there are; all by default.
    blank : int
        The class of no label.
    zero_infinity : bool
        Whether the loss of a row without enough times is 0, not infinite.
    name : str, optional
        The prefix of the names of its variables.
    """
    given = {"lengths": lengths, "label_lengths": label_lengths}
    inputs = {"x": x, "label": label}
    inputs |= {slot: variable for slot, variable in given.items() if variable is not None}
    attrs = {"blank": blank, "zero_infinity": zero_infinity}
    return _append("ctc_loss", inputs, attrs, name)


@ow.transaction()
def _append(
    op_type: str, inputs: Mapping[str, object], attrs: Mapping[str, Any], name: str | None
) -> ow.Variable:
    for slot, variable in inputs.items():
        checks.check_variable(op_type, slot, variable)
    layer = begin(op_type, name)
    return operators.append(layer.block, op_type, inputs, attrs, name=layer.out)
