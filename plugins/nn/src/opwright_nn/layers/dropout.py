"""dropout: sets random elements to zero during training."""

from __future__ import annotations

import opwright as ow
from opwright_nn import checks
from opwright_nn.layers.inputs import Input
from opwright_nn.layers.layer import append_layer


def dropout(
    input: Input,
    probability: float = 0.5,
    seed: int = 0,
    training: bool = True,
    name: str | None = None,
) -> ow.Variable:
    """Append x with random elements set to 0 and the rest divided by ``1 - probability``.

    Srivastava et al., Dropout, 2014. `Model.predict` skips it.

    Parameters
    ----------
    input : Variable or str
        Float, of any shape.
    probability : float in [0, 1)
        The probability that an element becomes 0.
    seed : int, at least 0
        0 uses the seed of the program.
    training : bool
        False returns x.
    name : str, optional
        The prefix of the layer's variable names.
    """
    attrs = {
        "probability": checks.check_float(
            "dropout", "probability", probability, at_least=0.0, below=1.0
        ),
        "seed": checks.check_int("dropout", "seed", seed, at_least=0),
        "training": checks.check_bool("dropout", "training", training),
    }
    return append_layer("dropout", {"x": input}, attrs, name)
