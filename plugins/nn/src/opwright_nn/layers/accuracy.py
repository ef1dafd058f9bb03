"""accuracy: the share of rows that a model predicts correctly."""

from __future__ import annotations

import opwright as ow
from opwright_nn import checks, operators
from opwright_nn.layers.layer import begin


@ow.transaction()
def accuracy(
    x: ow.Variable, label: ow.Variable, k: int = 1, name: str | None = None
) -> ow.Variable:
    """Append the share of rows whose label is among the k highest scores.

    Parameters
    ----------
    x : Variable, [n, classes]
        Probabilities or logits.
    label : Variable, int64 [n, 1]
        The class of each row.
    k : int, at least 1
        How many of the highest scores count.
    name : str, optional
        The prefix of the names of its variables.
    """
    checks.check_variable("accuracy", "x", x)
    checks.check_variable("accuracy", "label", label)
    attrs = {"k": checks.check_int("accuracy", "k", k, at_least=1)}
    layer = begin("accuracy", name)
    inputs = {"x": x, "label": label}
    return operators.append(layer.block, "accuracy", inputs, attrs, slot="accuracy", name=layer.out)
