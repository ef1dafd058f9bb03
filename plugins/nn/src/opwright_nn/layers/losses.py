"""Losses: cross entropies, one value for each row, and the mean over a batch."""

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


@ow.transaction()
def _append(
    op_type: str, inputs: Mapping[str, object], attrs: Mapping[str, Any], name: str | None
) -> ow.Variable:
    for slot, variable in inputs.items():
        checks.check_variable(op_type, slot, variable)
    layer = begin(op_type, name)
    return operators.append(layer.block, op_type, inputs, attrs, name=layer.out)
