"""accuracy: the fraction of rows that a model predicts correctly."""

from __future__ import annotations

import opwright as ow
from opwright_nn import checks, operators
from opwright_nn.layers.inputs import Input, find_input
from opwright_nn.layers.layer import begin


@ow.transaction()
def accuracy(input: Input, label: Input, k: int = 1, name: str | None = None) -> ow.Variable:
    """Append the fraction of rows whose label is among the k highest scores.

    Parameters
    ----------
    input : Variable or str, [n, classes]
        Probabilities or logits.
    label : Variable or str, int64 [n, 1]
        The class of each row.
    k : int, at least 1
        The number of highest scores that count.
    name : str, optional
        The prefix of the layer's variable names.
    """
    x = find_input("accuracy", "input", input)
    classes = find_input("accuracy", "label", label, "int64")
    attrs = {"k": checks.check_int("accuracy", "k", k, at_least=1)}
    layer = begin("accuracy", name)
    inputs = {"x": x, "label": classes}
    return operators.append(layer.block, "accuracy", inputs, attrs, slot="accuracy", name=layer.out)
