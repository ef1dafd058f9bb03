"""Cross entropy of probabilities and scores against classes, with weights and smoothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import opwright as ow
from opwright.errors import AttributeTypeError, AttributeValueError, ShapeError
from opwright_nn import checks, operators
from opwright_nn.layers.inputs import Input, find_input
from opwright_nn.layers.layer import REDUCTIONS, Layer, append_layer, append_total, begin


@ow.transaction()
def cross_entropy(
    input: Input,
    label: Input,
    soft_label: bool = False,
    name: str | None = None,
    *,
    ignore_index: int | None = None,
    class_weights: Sequence[float] | None = None,
    label_smoothing: float = 0.0,
    reduction: str = "none",
) -> ow.Variable:
    """Append ``-log(x[label])`` for each row of probabilities.

    Parameters
    ----------
    input : Variable or str, [..., classes]
        Probabilities; for logits, `softmax_with_cross_entropy` is faster and more accurate.
    label : Variable or str
        Classes, int64 [...] or [..., 1], or, with `soft_label`, distributions, [..., classes].
    soft_label : bool
        Whether labels are distributions.
    name : str, optional
        The prefix of the layer's variable names.
    ignore_index : int, optional
        A class whose rows have loss 0.
    class_weights, label_smoothing, reduction
        As in `layers.softmax_with_cross_entropy`.

    Returns
    -------
    Variable
        A scalar if reduced. Otherwise it has the shape of the classes, or [..., 1] for
        distributions.
    """
    who = "cross_entropy"
    x, target = _find_inputs(who, input, label, soft_label)
    options = _check_options(who, x, soft_label, class_weights, label_smoothing, reduction)
    ignored = None
    if ignore_index is not None:
        ignored = checks.check_int(who, "ignore_index", ignore_index)
    layer = begin(who, name)
    plain = not options.changes_rows and (options.soft_label or ignored is None)
    if plain:
        attrs = {"soft_label": options.soft_label}
        return _reduce_plain(layer, who, {"x": x, "label": target}, attrs, options)
    if options.soft_label:
        inputs = {"x": x, "label": _weighted(target, options)}
        return _reduce_plain(layer, who, inputs, {"soft_label": True}, options)
    logs = ow.ops.log(ow.ops.maximum(x, 1e-37))
    return _append_rows(layer, logs, target, -100 if ignored is None else ignored, options)


@ow.transaction()
def softmax_with_cross_entropy(
    input: Input,
    label: Input,
    soft_label: bool = False,
    ignore_index: int = -100,
    name: str | None = None,
    *,
    axis: int = -1,
    class_weights: Sequence[float] | None = None,
    label_smoothing: float = 0.0,
    reduction: str = "none",
) -> ow.Variable:
    """Append ``-log(softmax(logits)[label])`` for each row.

    Parameters
    ----------
    input : Variable or str, [..., classes]
        Scores, not normalized.
    label : Variable or str
        Classes, int64 [...] or [..., 1], or, with `soft_label`, distributions, [..., classes].
    soft_label : bool
        Whether labels are distributions.
    ignore_index : int
        A class whose rows have loss 0.
    name : str, optional
        The prefix of the layer's variable names.
    axis : int
        The axis of the classes.
    class_weights : sequence of float, optional
        A factor of at least 0 for the loss of each class.
    label_smoothing : float in [0, 1]
        The fraction of the label distributed evenly over all classes.
    reduction : str
        "none"; "sum"; or "mean", weighted by class over the rows that are not ignored; for
        distributions it is the mean over all rows. Without such rows the mean is 0.

    Returns
    -------
    Variable
        A scalar if reduced. Otherwise it has the shape of the class ids, or, for distributions,
        the shape of logits with 1 class.
    """
    who = "softmax_with_cross_entropy"
    logits, target = _find_inputs(who, input, label, soft_label)
    options = _check_options(
        who, logits, soft_label, class_weights, label_smoothing, reduction, axis
    )
    ignored = checks.check_int(who, "ignore_index", ignore_index)
    layer = begin(who, name)
    attrs = {"soft_label": options.soft_label, "ignore_index": ignored, "axis": options.axis}
    if options.soft_label:
        if options.changes_rows:
            target = _weighted(target, options)
        return _reduce_plain(layer, who, {"logits": logits, "label": target}, attrs, options)
    if not options.changes_rows:
        loss = _append_loss(layer, who, {"logits": logits, "label": target}, attrs, options)
        return _reduce(layer, loss, logits, target, ignored, options)
    attrs = {"axis": options.axis}
    logs = operators.append(
        layer.block, "log_softmax", {"x": logits}, attrs, name=layer.part("logs")
    )
    return _append_rows(layer, logs, target, ignored, options)


@ow.transaction()
def sigmoid_cross_entropy_with_logits(
    input: Input,
    label: Input,
    name: str | None = None,
    *,
    positive_weight: float | None = None,
    reduction: str = "none",
) -> ow.Variable:
    """Append ``-label * log(s) - (1 - label) * log(1 - s)``, where s is sigmoid(x).

    Parameters
    ----------
    input : Variable or str
        Scores, not normalized.
    label : Variable or str
        Probabilities, mostly 0 or 1, of the shape and dtype of x.
    name : str, optional
        The prefix of the layer's variable names.
    positive_weight : float, > 0, optional
        A factor for ``label * log(s)``, useful if labels of 1 are rare.
    reduction : str
        "none", "mean" or "sum".
    """
    who = "sigmoid_cross_entropy_with_logits"
    x, target = find_input(who, "input", input), find_input(who, "label", label)
    inputs = {"x": x, "label": target}
    kind = checks.check_choice(who, "reduction", reduction, REDUCTIONS)
    layer = begin(who, name)
    last = layer.out if kind == "none" else layer.part("loss")
    if positive_weight is None:
        loss = operators.append(layer.block, who, inputs, name=last)
    else:
        weight = checks.check_float(who, "positive_weight", positive_weight, above=0.0)
        plain = operators.append(layer.block, who, inputs, name=layer.part("rows"))
        more = target * ow.ops.softplus(-x) * (weight - 1.0)
        loss = operators.append(layer.block, "add", {"x": plain, "y": more}, name=last)
    return loss if kind == "none" else append_total(layer, loss, kind)


@ow.transaction()
def nll(
    input: Input,
    label: Input,
    ignore_index: int = -100,
    axis: int = -1,
    name: str | None = None,
) -> ow.Variable:
    """Append ``-x[label]`` for each row of log-probabilities.

    Parameters
    ----------
    input : Variable or str
        Log-probabilities, as from `log_softmax`.
    label : Variable or str
        Classes, of the shape of `input` with length 1 along `axis`, or without that axis.
    ignore_index : int
        A class whose rows have loss 0.
    axis : int
        The axis of the classes.
    name : str, optional
        The prefix of the layer's variable names.
    """
    attrs = {"ignore_index": ignore_index, "axis": axis}
    inputs = {"x": input, "label": find_input("nll", "label", label, "int64")}
    return append_layer("nll", inputs, attrs, name)


def label_smooth(
    input: Input,
    prior: Input | None = None,
    epsilon: float = 0.1,
    name: str | None = None,
) -> ow.Variable:
    """Append ``(1 - epsilon) * x + epsilon * prior`` for distributions of classes.

    Parameters
    ----------
    input : Variable or str, [..., classes]
        Distributions; for class ids, one-hot vectors.
    prior : Variable or str, optional
        The distribution to mix in, of a shape that broadcasts; uniform by default.
    epsilon : float in [0, 1]
        The weight of `prior`.
    name : str, optional
        The prefix of the layer's variable names.
    """
    inputs = {"x": input} if prior is None else {"x": input, "prior": prior}
    return append_layer("label_smooth", inputs, {"epsilon": epsilon}, name)


class _Options(NamedTuple):
    """The shared, checked arguments of both classification losses."""

    soft_label: bool
    weights: tuple[float, ...] | None
    smoothing: float
    reduction: str
    axis: int
    rank: int | None

    @property
    def changes_rows(self) -> bool:
        """Whether the loss of a row differs from the operator's result."""
        return self.weights is not None or self.smoothing > 0

    def class_weights(self) -> Any:
        """Return the weights as a list that broadcasts along the class axis."""
        array = np.array(self.weights)
        if self.axis != -1 and self.rank is not None:
            array = array.reshape(-1, *[1] * (self.rank - 1 - self.axis % self.rank))
        return array.tolist()  # a list takes the dtype of the other operand


def _find_inputs(
    who: str, x: object, label: object, soft_label: object
) -> tuple[ow.Variable, ow.Variable]:
    """Return the scores and the labels of a classification loss."""
    dtype = "float32" if soft_label is True else "int64"
    return find_input(who, "input", x), find_input(who, "label", label, dtype)


def _check_options(
    who: str,
    scores: ow.Variable,
    soft_label: object,
    class_weights: object,
    label_smoothing: object,
    reduction: object,
    axis: object = -1,
) -> _Options:
    options = _Options(
        soft_label=checks.check_bool(who, "soft_label", soft_label),
        weights=_check_weights(who, class_weights),
        smoothing=checks.check_float(
            who, "label_smoothing", label_smoothing, at_least=0.0, at_most=1.0
        ),
        reduction=checks.check_choice(who, "reduction", reduction, REDUCTIONS),
        axis=checks.check_int(who, "axis", axis),
        rank=None if scores.shape is None else len(scores.shape),
    )
    if options.axis != -1 and options.changes_rows and options.rank is None:
        raise ShapeError(
            f"{who}: the number of axes must be known for axis={options.axis}, got {scores!r}; "
            "declare its shape, or move the classes to the last axis"
        )
    rank = 0 if options.rank is None else options.rank
    is_axis = -rank <= options.axis < rank  # the operator refuses others
    classes = scores.shape[options.axis] if scores.shape is not None and is_axis else -1
    if options.weights is not None and classes not in (-1, len(options.weights)):
        raise AttributeValueError(
            f"{who}: class_weights must have a weight for each of the {classes} classes, got "
            f"{len(options.weights)}"
        )
    return options


def _check_weights(who: str, value: object) -> tuple[float, ...] | None:
    if value is None:
        return None
    if not isinstance(value, Sequence | np.ndarray) or not checks.is_listed(value):
        raise AttributeTypeError(
            f"{who}: class_weights must be a list of numbers, got {value!r} "
            f"({type(value).__name__}); write class_weights=[1.0, 2.5], for example"
        )
    return tuple(
        checks.check_float(who, f"class_weights[{i}]", item, at_least=0.0)
        for i, item in enumerate(value)
    )


def _weighted(label: ow.Variable, options: _Options) -> ow.Variable:
    """Append smoothed class distributions, with each class multiplied by its weight."""
    if options.smoothing:
        if options.axis != -1:
            label = label * (1 - options.smoothing)
            size = ow.ops.sum(
                ow.ops.fill_like(label, value=1.0), axis=[options.axis], keepdims=True
            )
            label = label + options.smoothing / size
        else:
            label = ow.ops.label_smooth(label, epsilon=options.smoothing)
    return label if options.weights is None else ow.ops.multiply(label, options.class_weights())


def _append_rows(
    layer: Layer, logs: ow.Variable, label: ow.Variable, ignored: int, options: _Options
) -> ow.Variable:
    """Append the loss of each row from log-probabilities, and reduce it.

    With smoothing, the term of each class is mixed with the mean over all classes, so that `nll`
    can select the mixture at the label.
    """
    weighted = logs if options.weights is None else ow.ops.multiply(logs, options.class_weights())
    if options.smoothing:
        share = ow.ops.mean(weighted, axis=[options.axis], keepdims=True) * options.smoothing
        weighted = weighted * (1 - options.smoothing) + share
    attrs = {"ignore_index": ignored, "axis": options.axis}
    loss = _append_loss(layer, "nll", {"x": weighted, "label": label}, attrs, options)
    return _reduce(layer, loss, logs, label, ignored, options)


def _append_loss(
    layer: Layer, op_type: str, inputs: dict[str, Any], attrs: dict[str, Any], options: _Options
) -> ow.Variable:
    last = layer.out if options.reduction == "none" else layer.part("loss")
    return operators.append(layer.block, op_type, inputs, attrs, name=last)


def _reduce_plain(
    layer: Layer, op_type: str, inputs: dict[str, Any], attrs: dict[str, Any], options: _Options
) -> ow.Variable:
    """Append an operator and reduce its rows; each row has weight 1."""
    loss = _append_loss(layer, op_type, inputs, attrs, options)
    return loss if options.reduction == "none" else append_total(layer, loss, options.reduction)


def _reduce(
    layer: Layer,
    loss: ow.Variable,
    scores: ow.Variable,
    label: ow.Variable,
    ignored: int,
    options: _Options,
) -> ow.Variable:
    """Reduce the loss of rows; a mean weights each row by its class."""
    if options.reduction != "mean":
        return loss if options.reduction == "none" else append_total(layer, loss, "sum")
    counts = ow.ops.fill_like(scores, value=-1.0)
    if options.weights is not None:
        counts = ow.ops.multiply(counts, options.class_weights())
    total = ow.ops.sum(ow.ops.nll(counts, label, ignore_index=ignored, axis=options.axis))
    # If all rows are ignored, 0 / 0 would be NaN.
    divisor = total + ow.ops.cast(total <= 0.0, dtype=total.dtype)
    inputs = {"x": ow.ops.sum(loss), "y": divisor}
    return operators.append(layer.block, "divide", inputs, name=layer.out)
